"""Verifies on a GPU all candidates of the GPU backends with an expected outcome, and published kernels without one.

    python benchmarks/gpu_outcomes.py [--backends cuda,triton] [--published FOLDER] [--jobs 6] [--out FOLDER]

The name of a sample is the reason for its failure (`good` ones pass). The first line of a self-test names its expected outcome. FOLDER has
pairs of KernelBench files, `<name>.reference.py` and `<name>.solution.py` (`class ModelNew` with inline extensions). Writes outcomes.json
and prints unexpected outcomes, and the outcome and time of every published kernel.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from evokernel.app.selftest import load_cases, selftest_folder
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

SAMPLE, SELFTEST, PUBLISHED = "sample", "selftest", "published"


def verify_candidate(
    kind: str, backend: str, path: Path, task: str, files: dict[str, str], timeout_s: float, settings: dict[str, Any]
) -> dict[str, Any]:
    """Verify one candidate; return its outcome and duration."""
    start_s = time.perf_counter()
    result: dict[str, Any] = {"kind": kind, "backend": backend, "name": path.name, "path": str(path)}
    try:
        baselines = ("eager", "compile") if kind == PUBLISHED else ("eager",)
        candidate = Candidate(backend=backend, files=files)
        job = Job(
            backend=backend, settings=settings, task=load_tasks(task)[0], candidate=candidate, timeout_s=timeout_s, baselines=baselines
        )
        outcome = verify(job)
        failure = outcome.failure
        result |= {
            "passed": outcome.feasible,
            "gate": failure.gate if failure else None,
            "reason": failure.reason if failure else None,
            "detail": failure.detail[:400] if failure else "",
            "latency_us": outcome.latency_us,
            "baseline_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
            "gates_s": {gate.gate: round(gate.seconds, 2) for gate in outcome.gates},
            "skipped_checks": list(outcome.skipped_checks),
        }
    except (InfraError, UserError) as error:
        result["error"] = str(error)[:400]
    return result | {"seconds": round(time.perf_counter() - start_s, 2)}


def list_orders(backends: list[str], published: Path | None) -> list[tuple[Any, ...]]:
    """Return the arguments of `verify_candidate` for all candidates."""
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
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    start_s = time.perf_counter()
    with ProcessPoolExecutor(args.jobs) as pool:
        futures = [
            pool.submit(verify_candidate, *order)
            for order in list_orders(args.backends.split(",") if args.backends else [], args.published)
        ]
        results = []
        for future in as_completed(futures):
            results.append(future.result())
            (args.out / "outcomes.json").write_text(json.dumps(results, indent=1))
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
        times = f"{one.get('latency_us')} µs, {one.get('baseline_us')}, {one['seconds']} s"
        print(f"{one['name']}: {outcome_text}, {times}, {one.get('detail', '')[:120]!r}")
    print(f"{len(results)} verified in {time.perf_counter() - start_s:.0f} s by {args.jobs} processes")


if __name__ == "__main__":
    main()
