"""Verifies the first draft of `template_search` for every task of some suites, as many as a time limit permits.

    python benchmarks/first_drafts.py --backend triton --tasks level1,level2 [--timed starter] [--limit-s 240] [--out FOLDER]

Tasks of `--timed` come first and are compared with PyTorch eager and torch.compile; the others follow in a shuffled order, so that any
part of them is a fair sample. Writes drafts.json (outcome, reason, speeds and seconds of every task) to the folder as results arrive,
and the same command continues with the tasks that it does not contain.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from random import Random
from typing import Any

from study import run_main

from evokernel.core.records import Context, Job, Outcome, Stage, Task
from evokernel.core.state import State
from evokernel.executors.local import LocalExecutor
from evokernel.generators.template_search import TemplateSearch
from evokernel.suites.loader import load_tasks

POLL_S = 2.0


def submit_draft(executor: LocalExecutor, task: Task, args: argparse.Namespace, is_timed: bool) -> Future[Outcome] | str:
    """Submit the first draft of a task; return the reason if the generator writes none."""
    candidate = TemplateSearch(args.backend).write(State(task=task), Context(stage=Stage.DRAFT)).candidate
    if not candidate.files:
        return candidate.notes
    settings = {"profiler": "never"} if args.backend in ("triton", "cuda") else {}
    baselines = ("eager", "compile") if is_timed else ("eager",)
    return executor.submit(
        Job(
            backend=args.backend, settings=settings, task=task, candidate=candidate, baselines=baselines, timing_s=args.timing_s,
            timeout_s=args.timeout_s,
        )
    )  # fmt: skip


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """The outcome of one draft."""
    failure = outcome.failure
    return {
        "correct": outcome.feasible, "latency_us": outcome.latency_us,
        "speed": {name: outcome.median_speedup(name) for name in outcome.baseline_us},
        "failure": f"{failure.gate} {failure.reason}: {failure.detail[:300]}" if failure else "",
        "seconds": {gate.gate: round(gate.seconds, 2) for gate in outcome.gates},
    }  # fmt: skip


def describe_failure(reason: str) -> dict[str, Any]:
    """The row of a task without a draft."""
    return {"correct": False, "latency_us": None, "speed": {}, "failure": reason, "seconds": {}}


def summarise(results: dict[str, dict[str, Any]], counts: dict[str, int]) -> str:
    """Correct drafts by suite, and the geometric mean of the speeds of timed tasks."""
    lines = []
    for suite, total in counts.items():
        own = [result for name, result in results.items() if name.startswith(f"{suite}/")]
        lines.append(f"{suite}: {sum(r['correct'] for r in own)} correct of {len(own)} verified of {total}")
        for baseline in ("eager", "compile"):
            speeds = [r["speed"][baseline] for r in own if r["correct"] and r.get("speed", {}).get(baseline)]
            if speeds:
                mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
                lines.append(f"  {mean:.2f}x of {baseline} in the geometric mean of {len(speeds)} kernels")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="triton")
    parser.add_argument("--tasks", default="level1,level2", help="tasks that are verified [level1,level2]")
    parser.add_argument("--timed", default="starter", help="tasks that are also compared with torch.compile [starter]")
    parser.add_argument("--workers", type=int, default=0, help="verifications in parallel [one per core]")
    parser.add_argument("--timing-s", type=float, default=0.2)
    parser.add_argument("--timeout-s", type=float, default=60)
    parser.add_argument("--limit-s", type=float, default=240, help="seconds after which the study ends [240]")
    parser.add_argument("--out", type=Path, default=Path("runs/first-drafts"))
    args = parser.parse_args()
    started = time.monotonic()
    timed = load_tasks(args.timed) if args.timed else []
    others = load_tasks(args.tasks) if args.tasks else []
    Random(0).shuffle(others)
    counts: dict[str, int] = {}
    for task in (*timed, *others):
        counts[task.id.partition("/")[0]] = counts.get(task.id.partition("/")[0], 0) + 1
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "drafts.json"
    results: dict[str, dict[str, Any]] = json.loads(file.read_text())["results"] if file.exists() else {}
    executor = LocalExecutor(args.workers)
    pending: dict[Future[Outcome], str] = {}
    for number, task in enumerate((*timed, *others)):
        if task.id in results:
            continue
        draft = submit_draft(executor, task, args, number < len(timed))
        if isinstance(draft, str):
            results[task.id] = describe_failure(draft)
        else:
            pending[draft] = task.id
    while pending and time.monotonic() - started < args.limit_s:
        done, _ = wait(pending, timeout=POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            name, error = pending.pop(future), future.exception()
            results[name] = (
                {"correct": False, "failure": f"infrastructure: {error}", "speed": {}} if error else describe_outcome(future.result())
            )
        file.write_text(json.dumps({"tasks": counts, "results": results}, indent=1))
    file.write_text(json.dumps({"tasks": counts, "results": results}, indent=1))
    print(summarise(results, counts))
    for future in pending:
        future.cancel()
    executor.close()


if __name__ == "__main__":
    raise SystemExit(run_main(main))
