"""Measures verification at the size `full`: seconds, memory, and the share of the outputs that was run and compared.

    python benchmarks/full_sizes.py --backend pallas --tasks starter [--attempts 4] [--every 1] [--out FOLDER]

For each task, `template_search` writes kernels until one is correct; the figures are those of that verification. `--every 5` takes every
fifth task. Memory is the largest sum over the worker and its processes, with shared pages counted once. Writes full_sizes.json
after each task, and the same command continues.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

from evokernel.app import factory
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, UserError
from evokernel.tasks.loader import find_task_files

POLL_S = 0.3


class MemoryMonitor(threading.Thread):
    """Records the largest memory of this process's descendants."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes, self.is_done = 0, threading.Event()

    def run(self) -> None:
        while not self.is_done.wait(POLL_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, list_descendants(os.getpid()))))


def list_descendants(pid: int) -> list[int]:
    """Return the processes that a process started, directly or through others."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return [*children, *(one for child in children for one in list_descendants(child))]


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process; a page that several processes share counts in parts."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:")), 0)


def measure_task(task: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run attempts on one task until one is feasible; return its figures, or the reason of the last failure."""
    settings = [f"budget={args.attempts}", "stop_when=feasible", *args.set]
    config = resolve_config(None, settings, tasks=task, backend=args.backend, size="full", fresh=True, workers=1)
    monitor = MemoryMonitor()
    monitor.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            engine = factory.create_engine(config, Path(folder) / "run")
            attempts = list(engine.make_attempts())
            incidents = engine.run.incidents.read_text() if engine.run.incidents.exists() else ""
            engine.close()
    except (UserError, InfraError) as error:
        return {"task": task, "is_feasible": False, "reason": str(error)}
    finally:
        monitor.is_done.set()
    if not attempts:
        return {"task": task, "is_feasible": False, "reason": f"no attempt: {incidents[:300]}"}
    outcome = attempts[-1].outcome
    failure = outcome.failure
    return {
        "task": task,
        "is_feasible": outcome.feasible,
        "reason": f"{failure.gate}: {failure.reason}: {failure.detail[:300]}" if failure else "",
        "attempts": len(attempts),
        "seconds": {gate.gate: gate.seconds for gate in outcome.gates},
        "total_s": sum(gate.seconds for gate in outcome.gates),
        "memory_bytes": monitor.peak_bytes,
        "run_share": outcome.run_share,
        "compared_share": outcome.compared_share,
        "latency_us": outcome.latency_us,
        "baseline_us": outcome.baseline_latency_us(),
    }


def summarize(rows: list[dict[str, Any]]) -> str:
    """Return the table's last lines: counts, medians and worst values."""
    good = [row for row in rows if row["is_feasible"]]
    lines = [f"{len(good)} of {len(rows)} tasks have a kernel that was verified"]
    for label, key, unit, scale in (("seconds", "total_s", "s", 1), ("memory", "memory_bytes", "GB", 1e-9), ("run", "run_share", "", 1)):
        values = sorted(row[key] * scale for row in good if row[key] is not None)
        if values:
            lines.append(f"{label}: median {statistics.median(values):.3g} {unit}, least {values[0]:.3g}, most {values[-1]:.3g}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="pallas")
    parser.add_argument("--tasks", default="starter")
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("full-sizes"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "full_sizes.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    for file in find_task_files(args.tasks)[:: args.every]:
        if file.id in {row["task"] for row in rows}:
            continue
        rows.append(row := measure_task(file.id, args))
        path.write_text(json.dumps(rows, indent=1))
        figures = f"{row['total_s']:6.1f} s {row['memory_bytes'] / 1e9:5.2f} GB" if row["is_feasible"] else row["reason"][:160]
        print(f"{row['task']:50} {figures}", flush=True)
    print(summarize(rows))


if __name__ == "__main__":
    main()
