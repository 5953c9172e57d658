"""Verifies on a GPU all candidates of the GPU backends with an expected outcome, and published kernels without one.

    python benchmarks/gpu_outcomes.py [--backends cuda,triton] [--published FOLDER] [--jobs 6] [--limit-s S] [--out FOLDER]

The name of a sample is the reason for its failure (`good` ones pass). The first line of a self-test names its expected outcome. FOLDER has
pairs of KernelBench files, `<name>.reference.py` and `<name>.solution.py` (`class ModelNew` with inline extensions). Writes outcomes.json
and prints unexpected outcomes, and the outcome and time of every published kernel. The same command continues after a time limit.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

from study import abandon

from evokernel.app.selftest import load_cases, selftest_folder
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Job, Outcome
from evokernel.executors.local import LocalExecutor
from evokernel.suites.loader import load_tasks

SAMPLE, SELFTEST, PUBLISHED = "sample", "selftest", "published"
POLL_S = 2.0


def make_job(kind: str, backend: str, path: Path, task: str, files: dict[str, str], timeout_s: float, settings: dict[str, Any]) -> Job:
    """Return the verification of one candidate."""
    baselines = ("eager", "compile") if kind == PUBLISHED else ("eager",)
    candidate = Candidate(backend=backend, files=files)
    return Job(backend=backend, settings=settings, task=load_tasks(task)[0], candidate=candidate, timeout_s=timeout_s, baselines=baselines)


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome that are written down."""
    failure = outcome.failure
    return {
        "passed": outcome.feasible,
        "gate": failure.gate if failure else None,
        "reason": failure.reason if failure else None,
        "detail": failure.detail[:400] if failure else "",
        "latency_us": outcome.latency_us,
        "baseline_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
        "gates_s": {gate.gate: round(gate.seconds, 2) for gate in outcome.gates},
        "seconds": round(sum(gate.seconds for gate in outcome.gates), 2),
        "skipped_checks": list(outcome.skipped_checks),
    }


class Outcomes:
    """The outcomes so far, in a file; candidates that it contains are not verified again."""

    def __init__(self, file: Path, limit_s: float) -> None:
        self.file, self.deadline_s = file, time.monotonic() + limit_s
        self.results: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []

    def verify(self, orders: list[tuple[Any, ...]], jobs: int) -> None:
        """Verify the candidates that have no outcome, as many as the time limit permits."""
        known = {(one["kind"], one["backend"], one["name"]) for one in self.results if "error" not in one}
        executor, running = LocalExecutor(jobs), dict[Future[Outcome], dict[str, Any]]()
        missing = [order for order in orders if (order[0], order[1], order[2].name) not in known]
        while (missing or running) and time.monotonic() < self.deadline_s:
            while missing and len(running) < 2 * jobs:
                kind, backend, path, *_ = order = missing.pop(0)
                named = {"kind": kind, "backend": backend, "name": path.name, "path": str(path)}
                try:
                    running[executor.submit(make_job(*order))] = named
                except UserError as error:
                    self.add(named | {"error": str(error)[:400]})
            for future in wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                self.add(running.pop(future) | ({"error": str(error)[:400]} if error else describe_outcome(future.result())))
        abandon(running, executor)  # what still runs is verified next time

    def add(self, result: dict[str, Any]) -> None:
        """Write down an outcome, in the place of an earlier error."""
        name = result["kind"], result["backend"], result["name"]
        self.results = [one for one in self.results if (one["kind"], one["backend"], one["name"]) != name] + [result]
        self.file.write_text(json.dumps(self.results, indent=1))


def list_orders(backends: list[str], published: Path | None) -> list[tuple[Any, ...]]:
    """Return the arguments of `make_job` for all candidates."""
    orders: list[tuple[Any, ...]] = []
    for backend in backends:
        file, home = make_plugin("backend", backend).file_name, plugin_folder("backend", backend)
        for path in sorted(one for one in (home / "samples").iterdir() if one.is_dir() and not one.name.startswith("_")):
            files = {one.relative_to(path).as_posix(): one.read_text() for one in sorted(path.rglob("*")) if one.is_file()}
            orders.append((SAMPLE, backend, path, str(home / "samples" / "task.py"), files, 10.0, {}))
        for one in load_cases(backend, selftest_folder(backend)):
            orders.append((SELFTEST, backend, one.path, one.task, {file: one.path.read_text()}, one.timeout_s, dict(one.settings)))
    for path in sorted(published.glob("*.solution.py")) if published else ():
        task = path.with_name(path.name.replace(".solution.", ".reference."))
        orders.append((PUBLISHED, "cuda", path, str(task), {"kernel.py": path.read_text()}, 60.0, {}))
    return orders


def is_as_expected(result: dict[str, Any]) -> bool:
    """Whether a candidate got its expected outcome."""
    if "error" in result:
        return False
    if result["kind"] == SAMPLE:
        expected_reason = result["name"].partition("-")[0]
        return result["passed"] if expected_reason == "good" else result["reason"] == expected_reason
    case = next(one for one in load_cases(result["backend"], selftest_folder(result["backend"])) if str(one.path) == result["path"])
    return result["passed"] != bool(case.gates) and (
        result["passed"] or (result["gate"] in case.gates and result["reason"] in case.reasons)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="cuda,triton")
    parser.add_argument("--published", type=Path)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--limit-s", type=float, default=3600, help="seconds after which the benchmark ends [3600]")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    start_s = time.perf_counter()
    outcomes = Outcomes(args.out / "outcomes.json", args.limit_s)
    outcomes.verify(list_orders(args.backends.split(",") if args.backends else [], args.published), args.jobs)
    results = outcomes.results
    tests = [one for one in results if one["kind"] != PUBLISHED]
    for (backend, kind), count in sorted(Counter((one["backend"], one["kind"]) for one in tests).items()):
        match_count = sum(is_as_expected(one) for one in tests if (one["backend"], one["kind"]) == (backend, kind))
        print(f"{backend} {kind}: {match_count} of {count} as expected")
    for one in tests:
        if not is_as_expected(one):
            print(
                "  unexpected:", json.dumps({key: one.get(key) for key in ("backend", "kind", "name", "gate", "reason", "detail", "error")})
            )
    for one in sorted((one for one in results if one["kind"] == PUBLISHED), key=lambda one: str(one["name"])):
        outcome_text = one.get("reason") or one.get("error") or "passed"
        times = f"{one.get('latency_us')} µs, {one.get('baseline_us')}, {one.get('seconds')} s"
        print(f"{one['name']}: {outcome_text}, {times}, {one.get('detail', '')[:120]!r}")
    print(f"{len(results)} verified in {time.perf_counter() - start_s:.0f} s by {args.jobs} workers", flush=True)
    os._exit(0)  # without waiting for workers that were stopped


if __name__ == "__main__":
    main()
