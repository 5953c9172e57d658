"""Nsight Compute's counters for a recorded program, read by the names of its columns, and what they say about the kernel."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.backends.gpu.sanitizer_run import run
from evokernel.backends.gpu.standalone import INPUTS
from evokernel.core.errors import ToolUnavailable

TIME = "gpu__time_duration.sum"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
SHARES = {
    "sm_share": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory_pipe_share": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_share": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "warps_active": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "tensor_share": "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    "coalesced": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "registers": "launch__registers_per_thread",
}
"""Our names for them; averaged over the launches of a call by their time."""
TIMEOUT_S = 60.0
UNITS = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def counters(tool: str, programs: Path, key: str, number: int) -> dict[str, float]:
    """Of one call. Raises CannotRun where the tool may not read them."""
    metrics = ",".join((TIME, READ, WRITTEN, *SHARES.values()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / INPUTS).write_text(json.dumps({"programs": str(programs), "device": number, "keys": [key], "times": 1}))
        text = run((tool, "--csv", "--page", "raw", "--clock-control", "none", "--metrics", metrics), folder, TIMEOUT_S)
    return summed(rows(text))


def rows(text: str) -> list[dict[str, float]]:
    """One for every launch: figures in microseconds, bytes and percent, by the names of their columns; others are left out."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        said = next((line for line in text.splitlines() if "ERR" in line or "rror" in line), "it printed no table")
        raise ToolUnavailable(f"ncu: {said.strip('= ')[:200]}")
    names, units, *found = csv.reader(io.StringIO("\n".join(lines)))
    made = []
    for values in found:
        row = {}
        for name, unit, value in zip(names, units, values):
            if name in (TIME, READ, WRITTEN, *SHARES.values()):
                try:
                    row[name] = float(value.replace(",", "")) * (UNITS.get(unit, 1.0) if name == TIME else BYTES.get(unit, 1.0))
                except ValueError:
                    continue  # n/a
        made.append(row)
    return made


def summed(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """A call's: times and bytes added up, shares weighed by time; without what was not reported."""
    total = sum(one.get(TIME, 0.0) for one in launches)
    found = {"ncu_us": total, "ncu_launches": float(len(launches))}
    for name, column in (("dram_read_bytes", READ), ("dram_written_bytes", WRITTEN)):
        if all(column in one for one in launches):
            found[name] = sum(one[column] for one in launches)
    for name, column in SHARES.items():
        known = [(one[column], one.get(TIME, 0.0)) for one in launches if column in one]
        if known and total:
            found[name] = sum(value * weight for value, weight in known) / max(sum(weight for _, weight in known), 1e-9)
    return found


def advice(found: Mapping[str, float], moved: float) -> str:
    """The one thing the counters show that a roofline does not."""
    read = found.get("dram_read_bytes", 0.0) + found.get("dram_written_bytes", 0.0)
    if moved > (64 << 20) and read > 1.5 * moved:
        return f"It moves {read / moved:.1f} times the bytes the task has: read every input once, keep intermediate results on the chip."
    if found.get("coalesced", 100.0) < 50:
        return (
            f"Only {found['coalesced']:.0f} % of each sector that is loaded is used: let neighbouring threads read neighbouring addresses."
        )
    if found.get("warps_active", 100.0) < 25:
        return f"Only {found['warps_active']:.0f} % of the warps that fit are active: smaller blocks, fewer registers, or more blocks."
    if found.get("sm_share", 0.0) > 80 and found.get("tensor_share", 0.0) < 5:
        return "The arithmetic units are busy and the matrix units idle: products belong on the latter."
    return ""
