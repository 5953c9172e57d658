"""Recorded schedules are priced: figures, doubts, faults and limits. How they were recorded: schedules/record.py."""

import gzip
import json
import re
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.schedule import ScheduleError, diagnose, estimate

RECORDED = Path(__file__).parent / "schedules"
V5E = chip("v5e")


@cache
def dump(name):
    return json.loads(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))


def unpack(files, folder):
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def priced(tmp_path):
    def price(name, chip=V5E, limit_s=20.0, **changed):
        files = dump(name)
        for part, change in changed.items():
            files = {file: change(text) if part in file else text for file, text in files.items()}
        return estimate(unpack(files, tmp_path), chip, limit_s=limit_s)

    return price


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
def test_figures(priced, name, us, megabytes, transfers, vmem_kib, bottleneck):
    found = priced(name)
    assert found.us == pytest.approx(us, rel=1e-4)
    assert found.hbm_bytes / 1e6 == pytest.approx(megabytes, rel=1e-4)
    assert found.transfers == transfers
    assert (found.vmem_bytes and found.vmem_bytes / 1024) == vmem_kib
    assert diagnose(found).bottleneck == bottleneck
    assert found.certified
    assert not found.notes
    assert not found.unwaited


def test_units_are_shares_of_the_time(priced):
    found = priced("matmul")
    assert found.units["mxu"] == pytest.approx(0.2311, abs=1e-3)
    assert found.units["vpu"] == pytest.approx(0.0471, abs=1e-3)
    assert "eup" not in found.units
    assert "eup" in priced("xla_gelu").units
    assert found.cycles == pytest.approx(found.us * 1e-6 * V5E.clock_hz)
    assert 0 < found.dma_wait < 1


def test_a_matrix_product_takes_the_cycles_its_passes_take(priced):
    """512³ in bfloat16 on four MXUs, 16 rows a pass."""
    found = priced("matmul")
    assert found.units["mxu"] * found.cycles == pytest.approx(512**3 / (128 * 128 * 4), rel=1e-6)


def test_blocks_that_are_used_again_are_read_once_more_only_where_they_change(priced):
    """Grid (i, j, k): x of 0.5 MB for each of two j, y of 0.5 MB for each of two i, the output once."""
    assert priced("matmul").hbm_bytes == 2 * 2 * 512 * 512 * 2 + 512 * 512 * 2


def test_a_copy_within_hbm_is_read_and_written(priced):
    assert priced("between_hbm").hbm_bytes == 2 * 512 * 1024 * 4


def test_an_asynchronous_copy_shares_hbm_with_what_runs_beside_it(priced):
    """The reduction reads 8.4 MB while the same amount is fetched for the next operation: 16.8 MB at the bandwidth."""
    found = priced("xla_softmax")
    by_name = {operation.name: operation for operation in found.operations}
    assert by_name["copy-start"].hbm_bytes == 1024 * 2048 * 4
    assert by_name["reduce_max.7"].us == pytest.approx(2 * 1024 * 2048 * 4 / (V5E.hbm_bytes_per_s * 0.9) * 1e6, rel=0.05)
    alone = priced("xla_softmax", **{"TLP-hlo": lambda text: re.sub(r"^.*copy-(start|done)\(.*\n", "", text, flags=re.M)})
    assert {o.name: o for o in alone.operations}["reduce_max.7"].us < 0.6 * by_name["reduce_max.7"].us


@pytest.mark.parametrize("name", ["unwaited", "underwaited"])
def test_a_transfer_nobody_waits_for_is_a_fault(priced, name):
    found = priced(name)
    assert found.unwaited == 1
    assert found.certified
    assert "waited for" in " ".join(found.notes)


def test_indices_from_memory_are_taken_to_be_all_different(priced):
    found = priced("gather")
    assert found.certified
    assert "all different" in found.notes[0]
    assert found.hbm_bytes == pytest.approx(2 * 512 * 1024 * 4, rel=1e-3)
    assert found.transfers == 64 + 64 + 1


def test_data_that_decides_nothing_is_no_doubt_but_data_that_decides_is(priced):
    assert priced("scaled").certified
    found = priced("branching")
    assert not found.certified
    assert "decided by data" in found.notes[0]


def test_an_endless_program_is_stopped(priced):
    begun = time.monotonic()
    found = priced("endless", limit_s=0.3)
    assert time.monotonic() - begun < 5
    assert not found.certified
    assert "limit of time" in found.notes[0]
    assert found.unwaited == 0


def test_pricing_is_repeatable(priced):
    assert priced("xla_softmax") == priced("xla_softmax")


def test_other_chips_price_by_their_own_figures(priced):
    assert priced("add", chip("v6e")).us < 0.7 * priced("add").us


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        ("final_bundles", lambda text: text.replace("scalar_lea.sflag", "mystery.op"), "decided by data"),
        ("final_bundles", lambda text: text.replace("vsyncpa", "vsyncmystery"), "not understood: vsyncmystery"),
        ("final_bundles", lambda text: re.sub(r"dma.hbm_to_vmem", "dma.mystery", text), "not understood: dma.mystery"),
        ("final_bundles", lambda text: re.sub(r"Start region 86", "", text), "not dumped"),
        ("TLP-hlo", lambda text: text.replace("%add.1 ", "%other.1 "), "other.1 (custom-call): no schedule was dumped"),
        (
            "final_bundles",
            lambda text: re.sub(r"dma.done.wait \(([^)]*)\), (%\w+), \d+", r"dma.done.wait (\1), \2, 999999", text),
            "without a matching",
        ),
    ],
)
def test_whatever_is_not_understood_is_a_doubt(priced, part, change, words):
    found = priced("add", **{part: change})
    assert not found.certified
    assert words in " ".join(found.notes)


def test_what_is_not_reported_is_not_made_up(tmp_path):
    files = {name: text for name, text in dump("add").items() if "vmem_report" not in name and "utilization" not in name}
    found = estimate(unpack(files, tmp_path), V5E)
    assert found.vmem_bytes is None
    assert found.units == {}
    assert found.us == pytest.approx(8.8588, rel=1e-4)


@pytest.mark.parametrize("missing", ["TLP-hlo", ""])
def test_a_folder_without_a_module_is_refused(tmp_path, missing):
    files = {name: text for name, text in dump("add").items() if missing not in name}
    with pytest.raises(ScheduleError, match="no scheduled module"):
        estimate(unpack(files, tmp_path), V5E)
    with pytest.raises(ScheduleError):
        estimate(tmp_path / "nowhere", V5E)


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
def test_a_damaged_dump_is_refused_or_priced_never_a_crash(tmp_path_factory, name, where, edits):
    files = dict(dump(name))
    for file in [file for file in files if where in file]:
        for share, cut, token in edits:
            at = int(share * len(files[file]))
            files[file] = files[file][:at] + token + files[file][at + cut :]
    folder = tmp_path_factory.mktemp("damaged")
    try:
        found = estimate(unpack(files, folder), V5E, limit_s=0.2)
    except ScheduleError:
        return
    assert found.us >= 0
    assert diagnose(found).summary
