"""The vendor's tools: their reports are put into words, and their tables are read by the names of columns."""

import pytest

from evokernel.backends.gpu import ncu
from evokernel.backends.gpu.profile import profile_kernel
from evokernel.backends.gpu.sanitizer_run import parse_first_finding
from evokernel.core.errors import ToolUnavailable
from evokernel.tasks.loader import load_tasks

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
