"""Measures the cost of the strict protocol: seconds per attempt, with strict and paper in turn on the same kernels.

    python benchmarks/protocol.py [--backend pallas] [--repeats 5]

The kernels are the first drafts of `template_search` that pass. This process verifies them, after a warm-up. No best kernel so far is
given, so every candidate would become the best and is confirmed.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from statistics import median

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Outcome, Stage, Task
from evokernel.core.state import State
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

TASKS = ("softmax", "layernorm", "matmul", "sum_rows")
PROTOCOLS = ("paper", "strict")
DRAFTS = 12


def verify_timed(task: Task, candidate: Candidate, protocol: str) -> tuple[float, Outcome]:
    """Verify once with a new seed, so that the outcome is not cached; return the seconds and the outcome."""
    job = Job(backend=candidate.backend, task=task, candidate=candidate, seed=time.time_ns() % 10**9)
    start_s = time.perf_counter()
    outcome = verify(Job.model_validate(job.model_dump() | {"protocol": protocol}))
    return time.perf_counter() - start_s, outcome


def first_correct_draft(task: Task, backend: str) -> Candidate | None:
    """Return the first draft that passes, if any."""
    for seed in range(DRAFTS):
        generator = make_plugin("generator", "template_search", backend=backend, seed=seed)
        candidate: Candidate = generator.write(State(task=task), Context(stage=Stage.DRAFT)).candidate
        if verify_timed(task, candidate, "strict")[1].feasible:
            return candidate
    return None


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--backend", default="cpp")
    options.add_argument("--repeats", type=int, default=5)
    args = options.parse_args()
    print("| task | paper, s | strict, s | ratio | strict, seconds by gate |\n|---|---|---|---|---|")
    for name in TASKS:
        task = load_tasks(f"starter/{name}")[0]
        candidate = first_correct_draft(task, args.backend)
        if candidate is None:
            print(f"| {name} | – | – | – | none of {DRAFTS} drafts passed |", flush=True)
            continue
        seconds: dict[str, list[float]] = defaultdict(list)
        gates: dict[str, list[float]] = defaultdict(list)
        for _ in range(args.repeats):
            for protocol in PROTOCOLS:
                elapsed_s, outcome = verify_timed(task, candidate, protocol)
                assert outcome.feasible, outcome.failure
                seconds[protocol].append(elapsed_s)
                for gate in outcome.gates if protocol == "strict" else ():
                    gates[gate.gate].append(gate.seconds)
        ratio = median(strict / paper for paper, strict in zip(seconds["paper"], seconds["strict"]))
        parts = ", ".join(f"{gate} {median(values):.2f}" for gate, values in gates.items())
        print(f"| {name} | {median(seconds['paper']):.2f} | {median(seconds['strict']):.2f} | {ratio:.2f} | {parts} |", flush=True)


if __name__ == "__main__":
    main()
