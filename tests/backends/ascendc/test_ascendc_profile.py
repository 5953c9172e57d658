"""Validation of the simulator's report, and the profile that follows from it."""

import json
from typing import Any

import pytest

from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.ascendc.profile import CLOCK, HAZARD_TEXTS, profile_kernel, roofline_us
from evokernel.backends.ascendc.simulator_report import PREFIX, LaunchReport, parse_reports, slowest_call_at_size
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile, Task
from evokernel.suites import loader

CHIP = find_chip("910B2")
TASK: Task = loader.load_tasks("starter/scale_shift")[0]
MOVED = 8 << 20
GOOD: dict[str, Any] = {
    "op": "KernelCustom", "block_dim": 48, "blocks": 48, "blocks_run": 48,
    "blocks_dry": 0, "guesses": 0, "is_part": False, "matches_dry": True, "tiling_key": 0, "workspace": 0, "cycles": 36000.0, "us": 22.0,
    "ub_peak": 131072, "vec_instr": 4800, "mte_instr": 512, "mte2_bytes": MOVED // 2, "mte3_bytes": MOVED // 2, "scalar_gm": 0,
    "scalar_gm_miss": 0, "scalar_ub": 0, "macs": 0, "raw_pointers": False,
    "busy": {"S": 1e5, "V": 2e5, "MTE2": 1.6e6, "MTE3": 5e5, "MTE1": 0, "M": 0, "FIX": 0}, "end": 1.728e6, "notes": [],
    "bytes": [16, 16], "call": 1, "cube_start": 0.0, "library_start": 0.0,
}  # fmt: skip


def line(**changed: object) -> str:
    return f"{PREFIX} {json.dumps(GOOD | changed)}"


def report(**changed: object) -> LaunchReport:
    return parse_reports(line(**changed))[0]


def profile_of(busy: dict[str, float] | None = None, **changed: object) -> Profile:
    """`busy` as shares of the time."""
    end = float(str(changed.get("end", GOOD["end"])))
    cycles = {pipe: share * end for pipe, share in (busy or {}).items()}
    return profile_kernel(TASK, report(**({"busy": cycles} if busy else {}), **changed), CHIP)


def test_reports_are_found_in_other_output() -> None:
    said = f"warning: something\n{line(us=5.0)}\nmore\n{line(us=7.0)}\n"
    assert [one.us for one in parse_reports(said)] == [5.0, 7.0]
    assert parse_reports("nothing\n") == []


def test_notes_are_kept() -> None:
    (note,) = report(notes=[["W-GM-512", "1a2b,3c", "not aligned", 3]]).notes
    assert (note.code, note.addresses, note.text, note.count) == ("W-GM-512", "1a2b,3c", "not aligned", 3)


@pytest.mark.parametrize(
    "changed",
    [
        {"us": -1.0}, {"us": float("nan")}, {"us": float("inf")}, {"cycles": 1e30}, {"us": "3"}, {"us": True}, {"blocks": 0},
        {"blocks_run": 49}, {"blocks_run": 0}, {"block_dim": 1.5}, {"raw_pointers": 0}, {"busy": {"X": 1.0}}, {"busy": {"V": -1.0}},
        {"bytes": 3}, {"bytes": [-1]}, {"notes": [["code"]]}, {"op": 3}, {"mte2_bytes": 10**30},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_reports_are_refused_as_forged(changed: dict[str, object]) -> None:
    with pytest.raises(CandidateError) as caught:
        parse_reports(line(**changed))
    assert caught.value.reason == "forbidden"


@pytest.mark.parametrize("text", ["{", "[]", "{}", "1e400", "NaN", "[" * 100_000, "\x00"])
def test_malformed_lines_are_refused_as_forged(text: str) -> None:
    with pytest.raises(CandidateError) as caught:
        parse_reports(f"{PREFIX} {text}")
    assert caught.value.reason == "forbidden"


def test_all_launches_of_a_call_count() -> None:
    said = "\n".join(
        [line(us=3.0, cycles=100.0, call=2), line(us=6.0, cycles=200.0, call=3), line(us=5.0, cycles=300.0, call=3, block_dim=8)]
    )
    both = slowest_call_at_size(parse_reports(said), (16, 16))
    assert (both.us, both.cycles, both.launches, both.block_dim, both.mte2_bytes) == (11.0, 500.0, 2, 48, MOVED)
    profile_kernel(TASK, slowest_call_at_size(parse_reports(f"{line()}\n{line()}"), (16, 16)), CHIP)


def test_the_slowest_call_of_the_bench_size_counts() -> None:
    said = "\n".join([line(us=9.0, bytes=[1, 2]), line(us=3.0, call=2), line(us=4.0, call=3), line(us=99.0, bytes=[16, 16, 16], call=4)])
    assert slowest_call_at_size(parse_reports(said), (16, 16)).us == 4.0
    assert slowest_call_at_size(parse_reports(said), (2, 1)).us == 9.0
    with pytest.raises(CandidateError) as caught:
        slowest_call_at_size(parse_reports(said), (5,))
    assert caught.value.reason == "no_latency"


def test_parts_of_a_launch_are_no_latency() -> None:
    dry = line(us=5.0, call=1, blocks_dry=48)
    part = line(us=3.0, call=2, blocks_run=2, is_part=True)
    assert slowest_call_at_size(parse_reports(f"{dry}\n{part}"), (16, 16)).us == 5.0
    with pytest.raises(CandidateError):
        slowest_call_at_size(parse_reports(part), (16, 16))


def test_parts_that_refute_the_dry_execution_replace_it() -> None:
    dry = line(us=5.0, call=1, blocks_dry=48)
    parts = [
        line(us=us, call=call, blocks_run=2, is_part=True, matches_dry=is_equal) for us, call, is_equal in ((7.0, 2, False), (9.0, 3, True))
    ]
    assert slowest_call_at_size(parse_reports("\n".join([dry, *parts])), (16, 16)).us == 7.0


def test_summary_says_which_blocks_were_not_executed() -> None:
    assert "blocks" not in profile_of({"V": 0.9}).summary
    assert "The times come from 48 blocks, executed without computing data." in profile_of({"V": 0.9}, blocks_dry=48).summary
    assert "44 of 48 blocks are extrapolated" in profile_of({"V": 0.9}, blocks_run=4).summary


def test_figures_have_msprof_column_names() -> None:
    figures = profile_of().figures
    assert figures["Task Duration(us)"] == 22.0
    assert figures["Block Dim"] == 48
    assert figures["aiv_total_cycles"] == 36000
    assert figures["aiv_time(us)"] == 20.0
    assert figures["aiv_mte2_ratio"] == pytest.approx(1.6 / 1.728, abs=1e-4)
    assert figures["aiv_vec_time(us)"] == pytest.approx(20 * 0.2 / 1.728, abs=1e-3)
    assert figures["GM_to_UB_datas(KB)"] == figures["UB_to_GM_datas(KB)"] == MOVED / 2048
    assert not [name for name in figures if name.startswith("aic_")]
    assert CLOCK == "estimate (simulator)"


def test_cube_kernels_have_cube_columns() -> None:
    figures = profile_of(
        {"M": 0.9, "MTE1": 0.3, "FIX": 0.2}, macs=10**9, vec_instr=0, end=8e5, blocks=24, blocks_run=24, block_dim=24
    ).figures
    assert figures["aic_cube_ratio"] == 0.9
    assert figures["aic_fixpipe_ratio"] == 0.2
    assert not [name for name in figures if name.startswith("aiv_")]


def test_time_outside_the_cores_is_named_in_microseconds() -> None:
    started = profile_of({"M": 0.7}, cube_start=12600.0, library_start=6300.0, macs=10**9)
    assert [started.figures[name] for name in ("launch_us", "cube_start_us", "library_start_us")] == [2.0, 7.0, 3.5]
    assert "Outside the cores: 2.0 µs of launch, 7.0 µs until the cube starts, 3.5 µs until Matmul starts." in started.summary
    assert started.bottleneck == "overhead"
    plain = profile_of({"MTE2": 0.9}, us=202.0, cycles=360_000.0)
    assert [plain.figures[name] for name in ("launch_us", "cube_start_us", "library_start_us")] == [2.0, 0.0, 0.0]
    assert "Outside the cores" not in plain.summary


def test_scalar_gm_cost_is_marked_as_assumption() -> None:
    missing = {"scalar_gm": 10_000, "scalar_gm_miss": 10_000, "vec_instr": 0, "mte_instr": 0}
    assert "is an assumption" in profile_of({"S": 0.95}, **missing).summary
    assert "is an assumption" not in profile_of({"S": 0.95}, **(missing | {"scalar_gm_miss": 100})).summary


def test_sampled_sums_are_scaled_to_all_blocks() -> None:
    assert profile_of(blocks_run=12).figures["copies"] == 4 * GOOD["mte_instr"]


@pytest.mark.parametrize(
    ("word", "remedy", "busy", "changed"),
    [
        ("scalar", "DataCopy of complete tiles", {"S": 0.95}, {"scalar_gm": 10**6, "vec_instr": 0, "mte_instr": 0}),
        ("scalar", "larger tiles", {"S": 0.8, "V": 0.5}, {}),
        ("vector", "reduce the vector work", {"V": 0.9, "MTE2": 0.2}, {}),
        ("memory", "there is little left to gain", {"MTE2": 0.95}, {}),
        ("memory", "use tiles of 16 KiB", {"MTE2": 0.95}, {"mte_instr": 8192}),
        ("memory", "keep data in UB", {"MTE2": 0.95}, {"mte2_bytes": 4 * MOVED}),
        ("store", "there is little left to gain", {"MTE3": 0.95}, {}),
        ("cube", "L0", {"M": 0.8}, {"macs": 10**9}),
        ("latency", "two buffers, so that they overlap", {"V": 0.3, "MTE2": 0.5, "MTE3": 0.2}, {}),
        ("latency", "No pipe is busy", {"V": 0.1, "MTE2": 0.2}, {}),
        ("latency", "SetBlockDim", {"MTE2": 0.95}, {"blocks": 8, "blocks_run": 8, "block_dim": 8}),
        ("overhead", "are launch overhead", {"V": 0.9}, {"us": 2.5, "cycles": 900.0, "end": 43200.0}),
    ],
)
def test_the_bottleneck_and_its_remedy(word: str, remedy: str, busy: dict[str, float], changed: dict[str, object]) -> None:
    profiled = profile_of(busy, **changed)
    assert profiled.bottleneck == word
    assert remedy in profiled.summary


def test_partial_wave_is_reported() -> None:
    assert "2 waves on 48 cores" in profile_of({"V": 0.9}, blocks=64, blocks_run=64, block_dim=64).summary
    assert "waves" not in profile_of({"V": 0.9}, blocks=96, blocks_run=96, block_dim=96).summary
    assert "Only 40 of 48 cores" in profile_of({"V": 0.9}, blocks=40, blocks_run=40, block_dim=40).summary


def test_unaligned_copies_are_reported() -> None:
    assert "512 bytes" in profile_of({"V": 0.9}, notes=[["W-GM-512", "", "", 1]]).summary


@pytest.mark.parametrize("code", HAZARD_TEXTS)
def test_hazards_are_reported_for_every_bottleneck(code: str) -> None:
    for busy, changed in (({"V": 0.9}, {}), ({"V": 0.9}, {"us": 2.5, "cycles": 900.0, "end": 43200.0})):
        assert HAZARD_TEXTS[code] in profile_of(busy, notes=[[code, "", "", 1]], **changed).summary
        assert HAZARD_TEXTS[code] not in profile_of(busy, **changed).summary


def test_inconsistent_times_are_refused_as_forged() -> None:
    for changed in ({"us": 3.0}, {"us": 3.0, "cycles": 1800.0}, {"end": 1e9}):
        with pytest.raises(CandidateError) as caught:
            profile_of(**changed)  # type: ignore[arg-type]
        assert caught.value.reason == "forbidden"


def test_mixed_kernel_uses_busy_shares_of_each_core_kind() -> None:
    busy = {"M": 0.3, "V": 0.2}
    profiled = profile_of(busy, macs=10**9, block_dim=24, blocks=72, blocks_run=72)
    assert profiled.bottleneck == "cube"
    assert profiled.figures["aic_cube_ratio"] == pytest.approx(0.9)
    assert profiled.figures["aiv_vec_ratio"] == pytest.approx(0.3)
    assert profiled.figures["cores_percent"] == 100
    assert "waves" not in profiled.summary


def test_tiling_keys_have_64_bits() -> None:
    assert report(tiling_key=10**19 + 1).tiling_key == 10**19 + 1
    with pytest.raises(CandidateError):
        report(tiling_key=2**65)


def test_raw_pointers_prevent_an_estimate() -> None:
    with pytest.raises(CandidateError, match="raw pointers") as caught:
        profile_of(raw_pointers=True)
    assert caught.value.reason == "no_latency"


@pytest.mark.parametrize("size", [1e3, 1e6, 1e8, 1.61e8, 2e8, 2.1e8, 1e9])
def test_estimates_are_never_below_the_roofline(size: float) -> None:
    for name in ("910B1", "910B2", "910B3", "910B4"):
        one = find_chip(name)
        assert one.launch_us + one.cycles_to_us(size / one.bandwidth_for_footprint(size)) > one.minimum_transfer_us(size)


def test_the_roofline_is_the_higher_of_bytes_and_operations() -> None:
    assert roofline_us(TASK, CHIP) == CHIP.minimum_transfer_us(TASK.work.bytes)
    heavy = TASK.model_copy(update={"work": TASK.work.model_copy(update={"flops": 1e12})})
    assert roofline_us(heavy, CHIP) == pytest.approx(1e12 / (2 * 4096 * 24 * 1.8e9) * 1e6)
    figures = profile_of().figures
    assert figures["share_of_roofline"] == pytest.approx(figures["roofline_us"] / 22.0, abs=1e-3)
    assert figures["writing_us"] < figures["moving_us"] <= figures["roofline_us"]


def test_cube_and_vector_cores_have_figures_of_their_own() -> None:
    mixed = {"block_dim": 4, "blocks": 12, "blocks_run": 12, "macs": 10**9, "end": 12e3, "cube_end": 6e3}
    busy = {"MTE2": 3e3, "M": 4.5e3, "V": 1.5e3}
    one = report(**mixed, busy=busy, cube_busy={"MTE2": 2.4e3, "M": 4.5e3})
    assert (one.mean_cycles(is_cube=True), one.mean_cycles(is_cube=False)) == (1500, 750)
    shares = [one.core_busy_share(pipe, is_cube) for pipe, is_cube in (("MTE2", True), ("MTE2", False), ("M", True), ("V", False))]
    assert shares == pytest.approx([0.4, 0.1, 0.75, 0.25])
    assert one.busy_share("MTE2") == pytest.approx(0.4)


def test_slowest_core_is_named_if_it_is_far_from_the_average() -> None:
    slow = {"slowest_cycles": 54_000.0, "slowest_block": 7, "slowest_is_cube": False}
    profile = profile_of({"V": 0.5}, **slow)
    assert "The slowest core, vector core 7, takes 30.0 µs, an average one 20.0 µs." in profile.summary
    assert profile.figures["slowest_core_us"] == 30.0
    assert "slowest core" not in profile_of({"V": 0.5}, **(slow | {"slowest_cycles": 36_000.0})).summary
