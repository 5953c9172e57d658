"""Verifies the best kernel of every operator in a folder of runs again, and compares it with PyTorch eager and torch.compile.

    python benchmarks/best_kernels.py RUNS [--workers 4] [--limit-s 240] [--out FOLDER]

RUNS is the folder of an experiment. Of all its runs, the kernel with the largest speedup over eager in its re-evaluation is taken, or in
its attempt if the run has no re-evaluation. Writes best.json as results arrive; the same command continues with operators that it does
not contain.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from first_drafts import describe_outcome, summarise
from study import abandon, run_main

from evokernel.core import final_results
from evokernel.core.records import Candidate, Job, Outcome, Settings, Task
from evokernel.core.run import Run
from evokernel.executors.local import LocalExecutor

POLL_S = 2.0


class BestKernel(NamedTuple):
    """The best kernel of an operator, and where it comes from."""

    task: Task
    candidate: Candidate
    settings: Settings
    speedup: float
    source: str


def find_best(folder: Path) -> dict[str, BestKernel]:
    """Return the best kernel of every operator by its speedup over eager."""
    best: dict[str, BestKernel] = {}
    for file in sorted(folder.glob("*/run.toml")):
        run = Run.open(file.parent)
        finals, tasks = final_results.read_final_results(run.folder), {task.id: task for task in run.tasks}
        for attempt in run.attempts():
            if finals and attempt.id not in finals:
                continue
            outcome = finals[attempt.id].outcome if finals else attempt.outcome
            speedup = outcome.median_speedup("eager") if outcome.feasible else None
            if speedup and (attempt.task not in best or speedup > best[attempt.task].speedup):
                source = f"{file.parent.name} {attempt.id}"
                best[attempt.task] = BestKernel(
                    tasks[attempt.task], attempt.candidate, run.config.plugin_settings("backend"), speedup, source
                )
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--workers", type=int, default=4, help="verifications in parallel [4]")
    parser.add_argument("--baselines", default="eager,compile")
    parser.add_argument("--timing-s", type=float, default=0.3)
    parser.add_argument("--limit-s", type=float, default=240, help="seconds after which the benchmark ends [240]")
    parser.add_argument("--out", type=Path, default=Path("runs/best-kernels"))
    args = parser.parse_args()
    deadline_s = time.monotonic() + args.limit_s
    kernels = find_best(args.runs)
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "best.json"
    results: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
    executor = LocalExecutor(args.workers)
    pending: dict[Future[Outcome], str] = {}
    for name, kernel in kernels.items():
        if name not in results:
            job = Job(
                backend=kernel.candidate.backend, settings=kernel.settings, task=kernel.task, candidate=kernel.candidate,
                baselines=tuple(args.baselines.split(",")), timing_s=args.timing_s, timeout_s=60, ignore_cache=True,
            )  # fmt: skip
            pending[executor.submit(job)] = name
    while pending and time.monotonic() < deadline_s:
        for future in wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
            name = pending.pop(future)
            if error := future.exception():
                print(f"{name}: {error}")
                continue
            kernel = kernels[name]
            results[name] = describe_outcome(future.result()) | {"source": kernel.source, "speedup_in_run": kernel.speedup}
            file.write_text(json.dumps(results, indent=1))
    suites = {name.partition("/")[0] for name in kernels}
    print(summarise(results, {suite: sum(name.startswith(f"{suite}/") for name in kernels) for suite in sorted(suites)}), flush=True)
    abandon(pending, executor)  # what still runs is verified next time
    os._exit(0)


if __name__ == "__main__":
    raise SystemExit(run_main(main))
