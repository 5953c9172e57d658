"""All candidates of the GPU backends whose verdict is known, and published ones whose verdict is not, judged on a GPU.

    python benchmarks/gpu_verdicts.py [--backends cuda,triton] [--published FOLDER] [--jobs 6] [--out FOLDER]

Samples are named after the reason they fail for (`good` ones pass); self-tests say in their first line what must come of them. FOLDER holds
pairs of KernelBench files, `<name>.reference.py` and `<name>.solution.py` (`class ModelNew` with inline extensions). Writes verdicts.json
and prints what was not judged as known, and every published kernel's verdict with the time it took.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Job
from evokernel.experiments.selftest import collect, shipped
from evokernel.tasks.loader import load
from evokernel.verify import verify

SAMPLE, SELFTEST, PUBLISHED = "sample", "selftest", "published"


def judged(
    kind: str, backend: str, path: Path, task: str, files: dict[str, str], timeout_s: float, settings: dict[str, Any]
) -> dict[str, Any]:
    """One candidate's verdict, and what it took."""
    began = time.perf_counter()
    found: dict[str, Any] = {"kind": kind, "backend": backend, "name": path.name, "path": str(path)}
    try:
        baselines = ("eager", "compile") if kind == PUBLISHED else ("eager",)
        candidate = Candidate(backend=backend, files=files)
        job = Job(backend=backend, settings=settings, task=load(task)[0], candidate=candidate, timeout_s=timeout_s, baselines=baselines)
        outcome = verify(job)
        failure = outcome.failure
        found |= {
            "passed": outcome.feasible,
            "gate": failure.gate if failure else None,
            "reason": failure.reason if failure else None,
            "detail": failure.detail[:400] if failure else "",
            "latency_us": outcome.latency_us,
            "baseline_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
            "gates_s": {gate.gate: round(gate.seconds, 2) for gate in outcome.gates},
            "without": list(outcome.skipped_checks),
        }
    except (InfraError, UserError) as error:
        found["trouble"] = str(error)[:400]
    return found | {"seconds": round(time.perf_counter() - began, 2)}


def orders(backends: list[str], published: Path | None) -> list[tuple[Any, ...]]:
    """Everything to be judged."""
    found: list[tuple[Any, ...]] = []
    for backend in backends:
        file, home = make_plugin("backend", backend).file, plugin_folder("backend", backend)
        for path in sorted(one for one in (home / "samples").iterdir() if one.is_dir() and not one.name.startswith("_")):
            files = {one.relative_to(path).as_posix(): one.read_text() for one in sorted(path.rglob("*")) if one.is_file()}
            found.append((SAMPLE, backend, path, str(home / "samples" / "task.py"), files, 10.0, {}))
        for one in collect(backend, shipped(backend)):
            found.append((SELFTEST, backend, one.path, one.task, {file: one.path.read_text()}, one.timeout_s, dict(one.settings)))
    for path in sorted(published.glob("*.solution.py")) if published else ():
        task = path.with_name(path.name.replace(".solution.", ".reference."))
        found.append((PUBLISHED, "cuda", path, str(task), {"kernel.py": path.read_text()}, 60.0, {}))
    return found


def is_as_known(found: dict[str, Any]) -> bool:
    """Whether a candidate got the verdict it says."""
    if "trouble" in found:
        return False
    if found["kind"] == SAMPLE:
        wanted = found["name"].partition("-")[0]
        return found["passed"] if wanted == "good" else found["reason"] == wanted
    specimen = next(one for one in collect(found["backend"], shipped(found["backend"])) if str(one.path) == found["path"])
    return found["passed"] != bool(specimen.gates) and (
        found["passed"] or (found["gate"] in specimen.gates and found["reason"] in specimen.reasons)
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="cuda,triton")
    parser.add_argument("--published", type=Path)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path("."))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        waiting = [pool.submit(judged, *order) for order in orders(given.backends.split(",") if given.backends else [], given.published)]
        found = []
        for done in as_completed(waiting):
            found.append(done.result())
            (given.out / "verdicts.json").write_text(json.dumps(found, indent=1))
    known = [one for one in found if one["kind"] != PUBLISHED]
    for (backend, kind), count in sorted(Counter((one["backend"], one["kind"]) for one in known).items()):
        right = sum(is_as_known(one) for one in known if (one["backend"], one["kind"]) == (backend, kind))
        print(f"{backend} {kind}: {right} of {count} as known")
    for one in known:
        if not is_as_known(one):
            print("  other:", json.dumps({key: one.get(key) for key in ("backend", "kind", "name", "gate", "reason", "detail", "trouble")}))
    for one in sorted((one for one in found if one["kind"] == PUBLISHED), key=lambda one: str(one["name"])):
        said = one.get("reason") or one.get("trouble") or "passed"
        times = f"{one.get('latency_us')} µs, {one.get('baseline_us')}, {one['seconds']} s"
        print(f"{one['name']}: {said}, {times}, {one.get('detail', '')[:120]!r}")
    print(f"{len(found)} judged in {time.perf_counter() - began:.0f} s by {given.jobs}")


if __name__ == "__main__":
    main()
