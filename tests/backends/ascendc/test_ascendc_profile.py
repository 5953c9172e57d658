"""The twin's report, read with suspicion, and what is said about a kernel because of it."""

import json
from typing import Any

import pytest

from evokernel.backends.ascendc.chips import chip
from evokernel.backends.ascendc.profile import CLOCK, HAZARDS, profile, roofline_us
from evokernel.backends.ascendc.simulator_report import PREFIX, Report, at_size, reports
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile, Task
from evokernel.tasks import loader

CHIP = chip("910B2")
TASK: Task = loader.load("starter/scale_shift")[0]
MOVED = 8 << 20
GOOD: dict[str, Any] = {
    "op": "KernelCustom", "block_dim": 48, "blocks": 48, "ran": 48, "tiling_key": 0, "workspace": 0, "cycles": 36000.0, "us": 22.0,
    "ub_peak": 131072, "vec_instr": 4800, "mte_instr": 512, "mte2_bytes": MOVED // 2, "mte3_bytes": MOVED // 2, "scalar_gm": 0,
    "scalar_gm_miss": 0, "scalar_ub": 0, "macs": 0, "raw_pointers": False,
    "busy": {"S": 1e5, "V": 2e5, "MTE2": 1.6e6, "MTE3": 5e5, "MTE1": 0, "M": 0, "FIX": 0}, "end": 1.728e6, "notes": [],
    "bytes": [16, 16], "call": 1,
}  # fmt: skip


def line(**changed: object) -> str:
    return f"{PREFIX} {json.dumps(GOOD | changed)}"


def report(**changed: object) -> Report:
    return reports(line(**changed))[0]


def found(busy: dict[str, float] | None = None, **changed: object) -> Profile:
    """`busy` as shares of the time."""
    end = float(str(changed.get("end", GOOD["end"])))
    cycles = {pipe: share * end for pipe, share in (busy or {}).items()}
    return profile(TASK, report(**({"busy": cycles} if busy else {}), **changed), CHIP)


def test_reports_are_found_among_other_words() -> None:
    said = f"warning: something\n{line(us=5.0)}\nmore\n{line(us=7.0)}\n"
    assert [one.us for one in reports(said)] == [5.0, 7.0]
    assert reports("nothing\n") == []


def test_notes_are_kept() -> None:
    (note,) = report(notes=[["W-GM-512", "1a2b,3c", "not aligned", 3]]).notes
    assert (note.code, note.addresses, note.text, note.count) == ("W-GM-512", "1a2b,3c", "not aligned", 3)


@pytest.mark.parametrize(
    "changed",
    [
        {"us": -1.0}, {"us": float("nan")}, {"us": float("inf")}, {"cycles": 1e30}, {"us": "3"}, {"us": True}, {"blocks": 0}, {"ran": 49},
        {"ran": 0}, {"block_dim": 1.5}, {"raw_pointers": 0}, {"busy": {"X": 1.0}}, {"busy": {"V": -1.0}}, {"bytes": 3}, {"bytes": [-1]},
        {"notes": [["code"]]}, {"op": 3}, {"mte2_bytes": 10**30},
    ],
    ids=str,
)  # fmt: skip
def test_absurd_reports_are_the_candidates_doing(changed: dict[str, object]) -> None:
    with pytest.raises(CandidateError) as caught:
        reports(line(**changed))
    assert caught.value.reason == "forbidden"


@pytest.mark.parametrize("text", ["{", "[]", "{}", "1e400", "NaN", "[" * 100_000, "\x00"])
def test_broken_lines_are_the_candidates_doing(text: str) -> None:
    with pytest.raises(CandidateError) as caught:
        reports(f"{PREFIX} {text}")
    assert caught.value.reason == "forbidden"


def test_all_launches_of_a_call_count() -> None:
    said = "\n".join(
        [line(us=3.0, cycles=100.0, call=2), line(us=6.0, cycles=200.0, call=3), line(us=5.0, cycles=300.0, call=3, block_dim=8)]
    )
    both = at_size(reports(said), (16, 16))
    assert (both.us, both.cycles, both.launches, both.block_dim, both.mte2_bytes) == (11.0, 500.0, 2, 48, MOVED)
    profile(TASK, at_size(reports(f"{line()}\n{line()}"), (16, 16)), CHIP)


def test_the_slowest_call_of_the_bench_size_counts() -> None:
    said = "\n".join([line(us=9.0, bytes=[1, 2]), line(us=3.0, call=2), line(us=4.0, call=3), line(us=99.0, bytes=[16, 16, 16], call=4)])
    assert at_size(reports(said), (16, 16)).us == 4.0
    assert at_size(reports(said), (2, 1)).us == 9.0
    with pytest.raises(CandidateError) as caught:
        at_size(reports(said), (5,))
    assert caught.value.reason == "unpriced"


def test_figures_have_the_names_of_msprof() -> None:
    figures = found().figures
    assert figures["Task Duration(us)"] == 22.0
    assert figures["Block Dim"] == 48
    assert figures["aiv_total_cycles"] == 36000
    assert figures["aiv_time(us)"] == 20.0
    assert figures["aiv_mte2_ratio"] == pytest.approx(1.6 / 1.728, abs=1e-4)
    assert figures["aiv_vec_time(us)"] == pytest.approx(20 * 0.2 / 1.728, abs=1e-3)
    assert figures["GM_to_UB_datas(KB)"] == figures["UB_to_GM_datas(KB)"] == MOVED / 2048
    assert not [name for name in figures if name.startswith("aic_")]
    assert CLOCK == "estimate (twin)"


def test_kernels_with_products_have_the_cubes_columns() -> None:
    figures = found({"M": 0.9, "MTE1": 0.3, "FIX": 0.2}, macs=10**9, vec_instr=0, end=8e5, blocks=24, ran=24, block_dim=24).figures
    assert figures["aic_cube_ratio"] == 0.9
    assert figures["aic_fixpipe_ratio"] == 0.2
    assert not [name for name in figures if name.startswith("aiv_")]


def test_what_single_numbers_from_global_memory_cost_is_a_guess() -> None:
    missing = {"scalar_gm": 10_000, "scalar_gm_miss": 10_000, "vec_instr": 0, "mte_instr": 0}
    assert "is a guess" in found({"S": 0.95}, **missing).summary
    assert "is a guess" not in found({"S": 0.95}, **(missing | {"scalar_gm_miss": 100})).summary


def test_sums_over_a_sample_of_blocks_are_told_for_all() -> None:
    assert found(ran=12).figures["copies"] == 4 * GOOD["mte_instr"]


@pytest.mark.parametrize(
    ("word", "remedy", "busy", "changed"),
    [
        ("scalar", "DataCopy of whole tiles", {"S": 0.95}, {"scalar_gm": 10**6, "vec_instr": 0, "mte_instr": 0}),
        ("scalar", "larger tiles", {"S": 0.8, "V": 0.5}, {}),
        ("vector", "less vector work", {"V": 0.9, "MTE2": 0.2}, {}),
        ("memory", "little is left to gain", {"MTE2": 0.95}, {}),
        ("memory", "larger tiles, of 16 KiB", {"MTE2": 0.95}, {"mte_instr": 8192}),
        ("memory", "keep data in UB", {"MTE2": 0.95}, {"mte2_bytes": 4 * MOVED}),
        ("store", "little is left to gain", {"MTE3": 0.95}, {}),
        ("cube", "L0", {"M": 0.8}, {"macs": 10**9}),
        ("latency", "two buffers, so that they overlap", {"V": 0.3, "MTE2": 0.5, "MTE3": 0.2}, {}),
        ("latency", "No pipe is busy", {"V": 0.1, "MTE2": 0.2}, {}),
        ("latency", "SetBlockDim", {"MTE2": 0.95}, {"blocks": 8, "ran": 8, "block_dim": 8}),
        ("overhead", "the launch itself", {"V": 0.9}, {"us": 2.5, "cycles": 900.0, "end": 43200.0}),
    ],
)
def test_the_bottleneck_and_its_remedy(word: str, remedy: str, busy: dict[str, float], changed: dict[str, object]) -> None:
    judged = found(busy, **changed)
    assert judged.bottleneck == word
    assert remedy in judged.summary


def test_a_wave_that_is_not_full_is_told() -> None:
    assert "2 waves on 48 cores" in found({"V": 0.9}, blocks=64, ran=64, block_dim=64).summary
    assert "waves" not in found({"V": 0.9}, blocks=96, ran=96, block_dim=96).summary
    assert "Only 40 of 48 cores" in found({"V": 0.9}, blocks=40, ran=40, block_dim=40).summary


def test_unaligned_copies_are_told() -> None:
    assert "512 bytes" in found({"V": 0.9}, notes=[["W-GM-512", "", "", 1]]).summary


@pytest.mark.parametrize("code", HAZARDS)
def test_what_may_go_wrong_on_a_device_is_told_whatever_the_bottleneck(code: str) -> None:
    for busy, changed in (({"V": 0.9}, {}), ({"V": 0.9}, {"us": 2.5, "cycles": 900.0, "end": 43200.0})):
        assert HAZARDS[code] in found(busy, notes=[[code, "", "", 1]], **changed).summary
        assert HAZARDS[code] not in found(busy, **changed).summary


def test_times_that_do_not_fit_together_are_the_candidates_doing() -> None:
    for changed in ({"us": 3.0}, {"us": 3.0, "cycles": 1800.0}, {"end": 1e9}):
        with pytest.raises(CandidateError) as caught:
            found(**changed)  # type: ignore[arg-type]
        assert caught.value.reason == "forbidden"


def test_a_kernel_on_both_kinds_of_core_is_judged_by_the_time_of_each() -> None:
    busy = {"M": 0.3, "V": 0.2}
    judged = found(busy, macs=10**9, block_dim=24, blocks=72, ran=72)
    assert judged.bottleneck == "cube"
    assert judged.figures["aic_cube_ratio"] == pytest.approx(0.9)
    assert judged.figures["aiv_vec_ratio"] == pytest.approx(0.3)
    assert judged.figures["cores_percent"] == 100
    assert "waves" not in judged.summary


def test_tiling_keys_have_64_bits() -> None:
    assert report(tiling_key=10**19 + 1).tiling_key == 10**19 + 1
    with pytest.raises(CandidateError):
        report(tiling_key=2**65)


def test_raw_pointers_have_no_price() -> None:
    with pytest.raises(CandidateError, match="raw pointers") as caught:
        found(raw_pointers=True)
    assert caught.value.reason == "unpriced"


@pytest.mark.parametrize("size", [1e3, 1e6, 1e8, 1.61e8, 2e8, 2.1e8, 1e9])
def test_no_estimate_of_ours_is_ever_impossible(size: float) -> None:
    for name in ("910B1", "910B2", "910B3", "910B4"):
        one = chip(name)
        assert one.launch_us + one.us(size / one.bytes_per_cycle(size)) > one.least_us(size)


def test_the_roofline_is_the_higher_of_bytes_and_operations() -> None:
    assert roofline_us(TASK, CHIP) == CHIP.least_us(TASK.work.bytes)
    heavy = TASK.model_copy(update={"work": TASK.work.model_copy(update={"flops": 1e12})})
    assert roofline_us(heavy, CHIP) == pytest.approx(1e12 / (2 * 4096 * 24 * 1.8e9) * 1e6)
    figures = found().figures
    assert figures["share_of_roofline"] == pytest.approx(figures["roofline_us"] / 22.0, abs=1e-3)
    assert figures["writing_us"] < figures["moving_us"] <= figures["roofline_us"]
