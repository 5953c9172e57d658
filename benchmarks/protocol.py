"""What the strict protocol costs: seconds per attempt, strict and paper in turn, on the same correct kernels.

    python benchmarks/protocol.py [--backend pallas] [--repeats 5]

The first drafts of `sweep` that pass, judged in this process by one judge that is warm. No kernel so far is given, so that every candidate
would become a best and is confirmed.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from statistics import median

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Outcome, Stage, State, Task
from evokernel.tasks.loader import load
from evokernel.verify import verify

TASKS = ("softmax", "layernorm", "matmul", "sum_rows")
PROTOCOLS = ("paper", "strict")
DRAFTS = 12


def judged(task: Task, candidate: Candidate, protocol: str) -> tuple[float, Outcome]:
    """One verification, with a seed of its own so that no verdict is found again."""
    job = Job(backend=candidate.backend, task=task, candidate=candidate, seed=time.time_ns() % 10**9)
    begun = time.perf_counter()
    outcome = verify(Job.model_validate(job.model_dump() | {"protocol": protocol}))
    return time.perf_counter() - begun, outcome


def correct(task: Task, backend: str) -> Candidate | None:
    """The first draft that passes."""
    for seed in range(DRAFTS):
        sweep = make_plugin("generator", "template_search", backend=backend, seed=seed)
        candidate: Candidate = sweep.write(State(task=task), Context(stage=Stage.DRAFT)).candidate
        if judged(task, candidate, "strict")[1].feasible:
            return candidate
    return None


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--backend", default="cpp")
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    print("| task | paper s | strict s | ratio | strict, gate by gate |\n|---|---|---|---|---|")
    for name in TASKS:
        task = load(f"starter/{name}")[0]
        candidate = correct(task, given.backend)
        if candidate is None:
            print(f"| {name} | – | – | – | none of {DRAFTS} drafts passed |", flush=True)
            continue
        seconds: dict[str, list[float]] = defaultdict(list)
        gates: dict[str, list[float]] = defaultdict(list)
        for _ in range(given.repeats):
            for protocol in PROTOCOLS:
                spent, outcome = judged(task, candidate, protocol)
                assert outcome.feasible, outcome.failure
                seconds[protocol].append(spent)
                for gate in outcome.gates if protocol == "strict" else ():
                    gates[gate.gate].append(gate.seconds)
        ratio = median(strict / paper for paper, strict in zip(seconds["paper"], seconds["strict"]))
        parts = ", ".join(f"{gate} {median(values):.2f}" for gate, values in gates.items())
        print(f"| {name} | {median(seconds['paper']):.2f} | {median(seconds['strict']):.2f} | {ratio:.2f} | {parts} |", flush=True)


if __name__ == "__main__":
    main()
