"""Collects Nsight Compute's counters for a recorded program by column name, and derives advice from them."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

from evokernel.backends.gpu.opportunities import METRICS
from evokernel.backends.gpu.standalone import INPUTS
from evokernel.backends.gpu.tool_processes import run_tool
from evokernel.core.errors import ToolUnavailable

TIME = "gpu__time_duration.sum"
READ, WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
SHARES = {
    "sm_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_pipe_share": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_share": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "warps_active": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "tensor_share": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "coalesced": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "registers": "launch__registers_per_thread",
}
"""Our names for the metrics; averages over the launches of a call, weighted by time."""
ALL_METRICS = (TIME, READ, WRITE, *SHARES.values(), *METRICS.values())
COLUMNS = set(ALL_METRICS)
TIMEOUT_S = 60.0
UNITS = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def collect_counters(tool: str, programs: Path, key: str, number: int) -> dict[str, float]:
    """Collects the counters of one call. Raises ToolUnavailable if the tool may not read them."""
    try:
        return collect_metrics(tool, programs, key, number, ALL_METRICS)
    except ToolUnavailable as error:
        if "metric" not in str(error):
            raise
    return collect_metrics(tool, programs, key, number, (TIME, READ, WRITE, *SHARES.values()))  # a version without some of the metrics


def make_command(tool: str, names: Sequence[str] = ALL_METRICS) -> tuple[str, ...]:
    """Returns the command that collects these metrics."""
    return (tool, "--csv", "--page", "raw", "--clock-control", "none", "--metrics", ",".join(names))


def collect_metrics(tool: str, programs: Path, key: str, number: int, names: Sequence[str]) -> dict[str, float]:
    """Runs the tool once for these metrics."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / INPUTS).write_text(json.dumps({"programs": str(programs), "keys": [key], "times": 1}))
        text = run_tool(make_command(tool, names), number, folder, TIMEOUT_S)
    return combine_launches(parse_launches(text))


def parse_launches(text: str) -> list[dict[str, float]]:
    """Parses one row per launch: figures in microseconds, bytes and percent by column name."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        message = next((line for line in text.splitlines() if "ERR" in line or "rror" in line), "it printed no table")
        raise ToolUnavailable(f"ncu: {message.strip('= ')[:200]}")
    names, units, *table = csv.reader(io.StringIO("\n".join(lines)))
    launches = []
    for values in table:
        row = {}
        for name, unit, value in zip(names, units, values):
            if name in COLUMNS:
                try:
                    number = float(value.replace(",", ""))
                except ValueError:
                    continue  # n/a
                if isfinite(number):  # ncu prints nan for what it could not count, for example while another process used the counters
                    row[name] = number * (UNITS.get(unit, 1.0) if name == TIME else BYTES.get(unit, 1.0))
        launches.append(row)
    return launches


def combine_launches(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combines the launches of a call: sums times and bytes, weights shares by time, omits unreported figures."""
    if not all(one.get(TIME) for one in launches):
        raise ToolUnavailable("ncu: it reported no time for a launch")
    total = sum(one[TIME] for one in launches)
    counters = {"ncu_us": total, "ncu_launches": float(len(launches))}
    for name, column in (("dram_read_bytes", READ), ("dram_written_bytes", WRITE)):
        if all(column in one for one in launches):
            counters[name] = sum(one[column] for one in launches)
    for name, column in (SHARES | METRICS).items():
        weighted = [(one[column], one[TIME]) for one in launches if column in one]
        if weighted:
            counters[name] = sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)
    return counters


def advice_from_counters(counters: Mapping[str, float], task_bytes: float) -> str:
    """Returns the one piece of advice that the counters give and a roofline does not."""
    read = counters.get("dram_read_bytes", 0.0) + counters.get("dram_written_bytes", 0.0)
    if task_bytes > (64 << 20) and read > 1.5 * task_bytes:
        return f"It moves {read / task_bytes:.1f} times the bytes of the task: read every input once, keep intermediate results on chip."
    if counters.get("coalesced", 100.0) < 50:
        return f"Only {counters['coalesced']:.0f} % of each loaded sector is used: let neighbouring threads read neighbouring addresses."
    if counters.get("warps_active", 100.0) < 25:
        return (
            f"Only {counters['warps_active']:.0f} % of the possible warps are active: use smaller blocks, fewer registers, or more blocks."
        )
    if counters.get("sm_share", 0.0) > 80 and counters.get("tensor_share", 0.0) < 5:
        return "The arithmetic units are busy and the tensor cores idle: compute products on tensor cores."
    return ""
