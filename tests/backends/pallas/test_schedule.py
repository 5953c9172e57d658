"""Estimates of recorded schedules: figures, doubts, kernel errors and limits. schedules/record.py records them."""

import gzip
import json
import re
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from time_limits import HANG_S

from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.schedule import ScheduleError, diagnose, estimate_schedule

RECORDED = Path(__file__).parent / "schedules"
V5E = get_chip("v5e")


@cache
def dump(name):
    return json.loads(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))


def unpack(files, folder):
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def estimate_dump(tmp_path):
    def estimate(name, chip=V5E, limit_s=20.0, **changes):
        files = dump(name)
        for part, change in changes.items():
            files = {file: change(text) if part in file else text for file, text in files.items()}
        return estimate_schedule(unpack(files, tmp_path), chip, limit_s=limit_s)

    return estimate


@pytest.mark.parametrize(
    ("name", "us", "megabytes", "transfers", "vmem_kib", "bottleneck"),
    [
        ("add", 8.8588, 6.2915, 12, 3072, "hbm"),
        ("add_tiny", 132.6649, 6.2915, 1536, 24, "dma_latency"),
        ("matmul", 5.9068, 2.6214, 20, 1024, "dma_latency"),
        ("manual", 6.5129, 4.1943, 5, 3072, "hbm"),
        ("between_hbm", 6.1296, 4.1943, 1, None, "hbm"),
        ("scaled", 6.0156, 4.1948, 9, 2048, "hbm"),
        ("xla_gelu", 7.2009, 4.1943, 2, 4096, "dma_latency"),
        ("xla_softmax", 37.639, 25.1658, 19, 13704, "hbm"),
    ],
)
def test_estimates_of_recorded_schedules_have_known_figures(estimate_dump, name, us, megabytes, transfers, vmem_kib, bottleneck):
    result = estimate_dump(name)
    assert result.latency_us == pytest.approx(us, rel=1e-4)
    assert result.hbm_bytes / 1e6 == pytest.approx(megabytes, rel=1e-4)
    assert result.transfers == transfers
    assert (result.vmem_bytes and result.vmem_bytes / 1024) == vmem_kib
    assert diagnose(result).bottleneck == bottleneck
    assert result.is_certified
    assert not result.notes
    assert not result.unwaited_transfers


def test_unit_shares_are_fractions_of_the_time(estimate_dump):
    result = estimate_dump("matmul")
    assert result.unit_shares["mxu"] == pytest.approx(0.2311, abs=1e-3)
    assert result.unit_shares["vpu"] == pytest.approx(0.0471, abs=1e-3)
    assert "eup" not in result.unit_shares
    assert "eup" in estimate_dump("xla_gelu").unit_shares
    assert result.cycles == pytest.approx(result.latency_us * 1e-6 * V5E.clock_hz)
    assert 0 < result.dma_wait_share < 1


def test_matrix_product_occupies_the_mxu_for_its_passes(estimate_dump):
    """512³ in bfloat16 on four MXUs, 16 rows a pass."""
    result = estimate_dump("matmul")
    assert result.unit_shares["mxu"] * result.cycles == pytest.approx(512**3 / (128 * 128 * 4), rel=1e-6)


def test_blocks_are_read_again_only_if_their_index_changes(estimate_dump):
    """Grid (i, j, k): x of 0.5 MB for each of two j, y of 0.5 MB for each of two i, the output once."""
    assert estimate_dump("matmul").hbm_bytes == 2 * 2 * 512 * 512 * 2 + 512 * 512 * 2


def test_copy_within_hbm_counts_read_and_write(estimate_dump):
    assert estimate_dump("between_hbm").hbm_bytes == 2 * 512 * 1024 * 4


def test_asynchronous_copy_shares_hbm_with_the_running_operation(estimate_dump):
    """The reduction reads 8.4 MB while the same amount is fetched for the next operation: 16.8 MB at the bandwidth."""
    result = estimate_dump("xla_softmax")
    by_name = {operation.name: operation for operation in result.operations}
    assert by_name["copy-start"].hbm_bytes == 1024 * 2048 * 4
    assert by_name["reduce_max.7"].latency_us == pytest.approx(2 * 1024 * 2048 * 4 / (V5E.hbm_bytes_per_s * 0.9) * 1e6, rel=0.05)
    alone = estimate_dump("xla_softmax", **{"TLP-hlo": lambda text: re.sub(r"^.*copy-(start|done)\(.*\n", "", text, flags=re.M)})
    assert {o.name: o for o in alone.operations}["reduce_max.7"].latency_us < 0.6 * by_name["reduce_max.7"].latency_us


@pytest.mark.parametrize("name", ["unwaited", "underwaited"])
def test_transfer_without_a_wait_is_reported(estimate_dump, name):
    result = estimate_dump(name)
    assert result.unwaited_transfers == 1
    assert result.is_certified
    assert "incomplete wait" in " ".join(result.notes)


def test_indices_from_memory_are_assumed_to_differ(estimate_dump):
    result = estimate_dump("gather")
    assert result.is_certified
    assert "all block indices read from memory differ" in result.notes[0]
    assert result.hbm_bytes == pytest.approx(2 * 512 * 1024 * 4, rel=1e-3)
    assert result.transfers == 64 + 64 + 1


def test_only_data_dependent_control_flow_is_a_doubt(estimate_dump):
    assert estimate_dump("scaled").is_certified
    result = estimate_dump("branching")
    assert not result.is_certified
    assert "decided by data" in result.notes[0]


def test_endless_program_is_stopped(estimate_dump):
    start = time.monotonic()
    result = estimate_dump("endless", limit_s=0.3)
    assert time.monotonic() - start < HANG_S
    assert not result.is_certified
    assert "time limit" in result.notes[0]
    assert result.unwaited_transfers == 0


def test_estimates_are_repeatable(estimate_dump):
    assert estimate_dump("xla_softmax") == estimate_dump("xla_softmax")


def test_other_chips_use_their_figures(estimate_dump):
    assert estimate_dump("add", get_chip("v6e")).latency_us < 0.7 * estimate_dump("add").latency_us


@pytest.mark.parametrize(
    ("part", "change", "note"),
    [
        ("final_bundles", lambda text: text.replace("scalar_lea.sflag", "mystery.op"), "decided by data"),
        ("final_bundles", lambda text: text.replace("vsyncpa", "vsyncmystery"), "unknown operations in the schedule: vsyncmystery"),
        ("final_bundles", lambda text: re.sub(r"dma.hbm_to_vmem", "dma.mystery", text), "unknown operations in the schedule: dma.mystery"),
        ("final_bundles", lambda text: re.sub(r"Start region 86", "", text), "missing in the dump"),
        ("TLP-hlo", lambda text: text.replace("%add.1 ", "%other.1 "), "other.1 (custom-call): no schedule was dumped"),
        (
            "final_bundles",
            lambda text: re.sub(r"dma.done.wait \(([^)]*)\), (%\w+), \d+", r"dma.done.wait (\1), \2, 999999", text),
            "without a matching",
        ),
    ],
)
def test_unknown_content_of_a_dump_is_a_doubt(estimate_dump, part, change, note):
    result = estimate_dump("add", **{part: change})
    assert not result.is_certified
    assert note in " ".join(result.notes)


@pytest.mark.parametrize(("extents", "is_known"), [("1", True), ("1,1", True), ("2", False)])
def test_copy_of_one_element_into_a_register_takes_a_read(estimate_dump, extents, is_known):
    """The calling program copies it, so the compiler dumps no schedule for it."""

    def add_copy(text):
        return re.sub(r"(ENTRY .*\n)", rf"\1  %copy.77 = f32[{extents}]{{0:T(128)}} copy(%other)\n", text, count=1)

    before, after = estimate_dump("add"), estimate_dump("add", **{"TLP-hlo": add_copy})
    assert after.is_certified == is_known
    read_us = V5E.read_latency / V5E.clock_hz * 1e6
    assert after.latency_us - before.latency_us == pytest.approx(read_us if is_known else 0, abs=1e-3)


def test_missing_reports_give_no_figures(tmp_path):
    files = {name: text for name, text in dump("add").items() if "vmem_report" not in name and "utilization" not in name}
    result = estimate_schedule(unpack(files, tmp_path), V5E)
    assert result.vmem_bytes is None
    assert result.unit_shares == {}
    assert result.latency_us == pytest.approx(8.8588, rel=1e-4)


@pytest.mark.parametrize("missing", ["TLP-hlo", ""])
def test_folder_without_a_module_is_rejected(tmp_path, missing):
    files = {name: text for name, text in dump("add").items() if missing not in name}
    with pytest.raises(ScheduleError, match="dumped no program"):
        estimate_schedule(unpack(files, tmp_path), V5E)
    with pytest.raises(ScheduleError):
        estimate_schedule(tmp_path / "nowhere", V5E)


TOKENS = [
    "%s1_s2",
    "%p3_p4",
    "[#allocation4]",
    "0x7fffffff",
    "-1",
    "1e999",
    "{",
    "}",
    "/*",
    "*/",
    ";;",
    " = ",
    "sbr.rel",
    "$region1",
    "dma.general",
    "__import__('os')",
    "\n 0x1 : {",
    "[smem:[#a + %s1_s1]]",
    "99999999999999999999999",
    "\x00",
    "sdivrem.u32",
    "(%p1_p99)",
    '"',
    "body=%main",
    "while(",
]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(["add_tiny", "manual", "between_hbm", "branching"]),
    where=st.sampled_from(["final_bundles", "utilization", "TLP-hlo", "vmem_report", "deduplication"]),
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from(TOKENS)), min_size=1, max_size=8),
)
def test_damaged_dump_is_rejected_or_estimated_without_a_crash(tmp_path_factory, name, where, edits):
    files = dict(dump(name))
    for file in [file for file in files if where in file]:
        for share, cut, token in edits:
            at = int(share * len(files[file]))
            files[file] = files[file][:at] + token + files[file][at + cut :]
    folder = tmp_path_factory.mktemp("damaged")
    try:
        result = estimate_schedule(unpack(files, folder), V5E, limit_s=0.2)
    except ScheduleError:
        return
    assert result.latency_us >= 0
    assert diagnose(result).summary
