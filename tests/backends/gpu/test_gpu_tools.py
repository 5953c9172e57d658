"""The vendor's tools: their reports are put into words, and their tables are read by the names of columns."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from evokernel.backends.gpu import ncu, tool_processes
from evokernel.backends.gpu.profile import profile_kernel
from evokernel.backends.gpu.program import FILE, Copy, Program, format_programs
from evokernel.backends.gpu.sanitizer_run import parse_first_finding
from evokernel.backends.gpu.standalone import INPUTS
from evokernel.core.errors import ToolUnavailable
from evokernel.core.records import Work
from evokernel.suites.loader import load_tasks

SOURCE = {"kernel.cu": "__global__ void add(const float* x) {\n  __shared__ float t[256];\n  t[threadIdx.x] = x[0];\n  use(t[0]);\n}\n"}
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at add(const float *)+0xf0 in kernel.cu:3
=========     and Read access at add(const float *)+0x160 in kernel.cu:4 [1024 hazards]
=========
done
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
OUTSIDE = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at add(const float *)+0x80 in kernel.cu:3
=========     by thread (96,0,0) in block (3,0,0)
=========     Access to 0x7f2cdee00180 is out of bounds
=========
========= ERROR SUMMARY: 1 error
"""
FINE = "========= COMPUTE-SANITIZER\ndone\n========= ERROR SUMMARY: 0 errors\n"


def test_race_report_quotes_both_lines():
    error = parse_first_finding(RACE, SOURCE)
    assert error.reason == "race"
    assert "kernel.cu:3:     t[threadIdx.x] = x[0];" in error.detail
    assert "kernel.cu:4:     use(t[0]);" in error.detail
    assert "+0x" not in error.detail
    assert "Hint: " in error.detail


def test_out_of_bounds_report_names_the_thread():
    error = parse_first_finding(OUTSIDE, SOURCE)
    assert error.reason == "out_of_bounds"
    assert "by thread (96,0,0) in block (3,0,0)" in error.detail


def test_clean_report_has_no_finding():
    assert parse_first_finding(FINE, SOURCE) is None


COLUMNS = ["ID", "Kernel Name", ncu.TIME, ncu.WRITE, ncu.READ, ncu.SHARES["warps_active"], ncu.SHARES["coalesced"]]


def table(*rows, units=("", "", "ns", "byte", "Kbyte", "%", "%"), columns=COLUMNS):
    lines = [columns, units, *rows]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def test_launch_times_are_summed_and_shares_weighted_by_time():
    found = ncu.combine_launches(
        ncu.parse_launches(table(["0", "a", "3,000", "1,024", "2", "20", "100"], ["1", "b", "1,000", "0", "1", "60", "n/a"]))
    )
    assert found["ncu_us"] == pytest.approx(4.0)
    assert found["ncu_launches"] == 2
    assert found["dram_read_bytes"] == 3000
    assert found["dram_written_bytes"] == 1024
    assert found["warps_active"] == pytest.approx(30)
    assert found["coalesced"] == pytest.approx(100)
    assert "sm_share" not in found, "what is not reported is not there"


def test_figures_that_ncu_could_not_count_are_not_reported():
    found = ncu.combine_launches(
        ncu.parse_launches(table(["0", "a", "3,000", "nan", "2", "nan", "100"], ["1", "b", "1,000", "0", "1", "60", "nan"]))
    )
    assert found["ncu_us"] == pytest.approx(4.0)
    assert "dram_written_bytes" not in found, "a sum without one launch would be too small"
    assert (found["warps_active"], found["coalesced"]) == (60, 100)
    with pytest.raises(ToolUnavailable, match="ncu: it reported no time for a launch"):
        ncu.combine_launches(ncu.parse_launches(table(["0", "a", "3,000", "0", "2", "20", "100"], ["1", "b", "nan", "0", "1", "60", "9"])))


def test_counters_are_read_by_column_name():
    order = [COLUMNS[i] for i in (4, 0, 2, 1, 6, 5, 3)] + ["something__new.sum"]
    text = table(["2", "0", "3", "a", "50", "20", "7", "1"], units=("Mbyte", "", "us", "", "%", "%", "byte", ""), columns=order)
    found = ncu.combine_launches(ncu.parse_launches(text))
    assert (found["ncu_us"], found["dram_read_bytes"], found["dram_written_bytes"]) == (3.0, 2e6, 7.0)


def test_missing_permission_for_counters_is_reported():
    with pytest.raises(ToolUnavailable, match="ERR_NVGPUCTRPERM"):
        ncu.parse_launches("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n")


CEILINGS = {"copy_gbs": 4000.0, "write_gbs": 3300.0, "cache_gbs": 8000.0, "launch_us": 2.0, "float32_tflops": 50.0, "tf32_tflops": 400.0}
CEILINGS |= {"float16_tflops": 800.0, "bfloat16_tflops": 800.0}


def test_profile_names_the_bottleneck():
    task = load_tasks("starter/gelu")[0]
    floor_us = task.work.bytes / 4000.0 / 1e3
    assert profile_kernel(task, [1.2 * floor_us] * 5, floor_us, CEILINGS, {}, "").bottleneck == "memory"
    assert profile_kernel(task, [5.0] * 5, 5.0, CEILINGS, {}, "").bottleneck == "overhead"
    slow = profile_kernel(task, [500.0] * 5, 480.0, CEILINGS, {"warps_active": 10.0}, "")
    assert slow.bottleneck == "latency"
    assert "10 % of the possible warps" in slow.summary
    assert slow.figures["warm_us"] == 480.0
    assert "ncu is not found" in profile_kernel(task, [500.0] * 5, 480.0, CEILINGS, {}, "ncu is not found").summary


def test_time_floor_ignores_bytes_that_fit_the_cache():
    task = load_tasks("starter/gelu")[0]
    assert profile_kernel(task, [5.0] * 5, 5.0, CEILINGS, {}, "").figures["moving_us"] == 0.0


STALLED = {"ncu_us": 400.0, "ncu_launches": 3.0, "dram_share": 50.0, "waves": 0.25, "coalesced": 25.0}
STALLED |= {"stall_long_scoreboard": 30.0, "stall_barrier": 10.0, "stall_selected": 10.0}
CARDS = ("coalescing", "loads-in-flight", "launch-overhead")


def opportunities_of(counters):
    task = load_tasks("starter/gelu")[0]
    return profile_kernel(task, [400.0] * 5, 400.0, CEILINGS, counters, "", CARDS)


def test_counters_become_opportunities_with_the_largest_gain_first():
    profile = opportunities_of(STALLED)
    rows = {row.cause: row for row in profile.opportunities}
    assert list(rows) == ["few_cores", "dependent_operations", "unaligned_copies", "synchronisation"]
    assert rows["few_cores"].gain_us == 300.0
    assert rows["unaligned_copies"].gain_us == 400 * 0.5 * 0.75
    above_us = 400 - profile.figures["roofline_us"]
    assert rows["dependent_operations"].gain_us == pytest.approx(above_us * 30 / 50, abs=1e-3)
    assert (rows["dependent_operations"].card, rows["unaligned_copies"].card) == ("loads-in-flight", "coalescing")
    assert rows["few_cores"].card == "", "the backend has no such card"
    assert all("estimate" in row.summary for row in rows.values())


def test_without_counters_nothing_is_reported():
    assert opportunities_of({}).opportunities == ()


def test_idle_tensor_cores_are_named_for_products():
    task = load_tasks("starter/matmul")[0]
    profile = profile_kernel(
        task, [4000.0] * 5, 4000.0, CEILINGS, {"ncu_launches": 1.0, "sm_share": 90.0, "tensor_share": 0.0}, "", ("wmma",)
    )
    (row,) = profile.opportunities
    assert (row.cause, row.card) == ("product_on_vector", "wmma")
    assert row.gain_us == pytest.approx(4000 - 2 * profile.figures["roofline_us"], abs=1e-3)


def test_tool_without_the_stall_metrics_is_asked_again(tmp_path):
    """A tool of an older version refuses a metric that it does not know."""
    answer = table(["0", "a", "3,000", "1,024", "2", "20", "100"]).replace("'", "")
    tool = tmp_path / "ncu"
    tool.write_text(
        "#!/bin/sh\ncase \"$*\" in *issue_stalled*) echo '==ERROR== Failed to find metric smsp__x'; exit 1;; esac\n"
        f"cat <<'END'\n{answer}END\necho done\n"
    )
    tool.chmod(0o755)
    assert ncu.collect_counters(str(tool), tmp_path, "key", 0)["ncu_us"] == 3.0


def test_every_card_of_a_stall_exists():
    from evokernel.backends.gpu.opportunities import STALLS
    from evokernel.core.plugins import plugin_folder

    names = {path.stem for backend in ("cuda", "triton") for path in (plugin_folder("backend", backend) / "knowledge").glob("*.md")}
    assert {card for reason in STALLS.values() for card in reason.cards} <= names


def test_recorded_counters_name_the_fault_and_its_gain():
    """Recorded on an H200: each thread sums 32 neighbours, 73.2 µs. With coalesced loads the same work took 19.5 µs."""
    counters = ncu.combine_launches(ncu.parse_launches((Path(__file__).parent / "ncu_h200.csv").read_text()))
    assert set(ncu.METRICS) <= set(counters)
    work = Work(flops=1 << 24, bytes=4 * ((1 << 24) + (1 << 19)))
    task = load_tasks("starter/gelu")[0].model_copy(update={"work": work})
    latency_us = counters["ncu_us"]
    row = profile_kernel(task, [latency_us] * 5, latency_us, CEILINGS, counters, "", CARDS).opportunities[0]
    assert (row.cause, row.card) == ("unaligned_copies", "coalescing")
    assert latency_us - row.gain_us == pytest.approx(19.5, rel=0.25)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_a_tool_that_was_started_early_runs_the_next_order(tmp_path, monkeypatch):
    """The tool is `env`, which changes nothing; the device is the host."""
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", tmp_path / "libcuda.so.1", Path(__file__).parent / "fake_cuda.c"], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / FILE).write_text(format_programs({"key": Program((64, 64), 1, (), (Copy(1, 0, 0, 0, 64),))}))
    (tmp_path / INPUTS).write_text(json.dumps({"programs": str(tmp_path), "keys": ["key"], "times": 1}))
    command = ("/usr/bin/env",)
    tool_processes.start_early(command, 0)
    early = tool_processes.IDLE[command, 0]
    tool_processes.start_early(command, 0)
    assert tool_processes.IDLE[command, 0] is early, "one process waits"
    assert tool_processes.run_tool(command, 0, tmp_path, 60.0) == "done\n"
    assert early.process.returncode == 0
    assert not tool_processes.IDLE
    assert tool_processes.run_tool(command, 0, tmp_path, 60.0) == "done\n", "the next order starts a process of its own"


def test_a_tool_that_does_not_exist_is_reported_when_it_is_used(tmp_path):
    tool_processes.start_early(("/nowhere/ncu",), 0)
    with pytest.raises(ToolUnavailable, match="ncu cannot be started"):
        tool_processes.run_tool(("/nowhere/ncu",), 0, tmp_path, 1.0)
