"""Loop overhead per attempt: everything but the model, the build and the execution, over a bank of 10,000 items.

    python benchmarks/loop.py [--items 10000] [--tasks 16] [--budget 12]

A generator that answers at once and an executor that judges at once leave only choosing, learning, embedding, storing and
journalling. Printed per attempt, wall and CPU, with the share of the parts.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

from evokernel.core.config import RunConfig
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, GateResult, Job, MemoryItem, Outcome, Reply
from evokernel.core.run import Run
from evokernel.engine.loop import Engine
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import seeds
from evokernel.tasks.loader import load

CODE = "".join(f"    out[i + {i}] = x[i + {i}] * scale[{i}] + shift[{i}];\n" for i in range(40))


class Instant:
    """Writes and judges in no time, so that what remains is the loop's own."""

    def __init__(self) -> None:
        self.calls = 0

    def write(self, state, context):
        self.calls += 1
        text = f'extern "C" void kernel() {{ // {state.next_id}\n{CODE}}}'
        return Reply(candidate=Candidate(backend="cpp", files={"kernel.cpp": text}), prompt="p" * 8000, text=text)

    def lesson(self, state, candidate, outcome):
        return None

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        number = int(job.candidate.id, 16) % 100
        gates = (
            GateResult(gate="build", passed=True),
            GateResult(gate="check", passed=number > 30, reason="" if number > 30 else "mismatch"),
        )
        future.set_result(
            Outcome(gates=gates, samples_us=(float(number + 1),) * 20 if number > 30 else (), baseline_us={"eager": (100.0,) * 20})
        )
        return future

    def close(self) -> None:
        pass


def filled(path: Path, items: int, sources: list[str]) -> None:
    """A bank as an earlier run would have left it."""
    bank = Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="earlier")
    made = []
    for n in range(items):
        source = sources[n % len(sources)]
        made.append(
            MemoryItem(
                id=f"earlier:{n}",
                kind="trace" if n % 2 else "experience",
                backend="cpp",
                title=f"item {n}",
                text="passed in 12 us",
                code=CODE,
                key=f"{source}\n# variant {n}",
                task=f"t/{n % 97}",
                family="matmul",
                feasible=bool(n % 3),
                speedup=1.0,
                bottleneck="memory",
            )
        )
    for at in range(0, items, 500):
        bank.add(made[at : at + 500])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--items", type=int, default=10_000)
    options.add_argument("--budget", type=int, default=12)
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    tasks = load("starter")
    print("| items | attempts | wall ms/attempt | cpu ms/attempt |\n|---|---|---|---|")
    for items in sorted({100, given.items}):
        with tempfile.TemporaryDirectory() as folder:
            filled(Path(folder) / "bank.db", items, [task.source for task in tasks])
            config = RunConfig(id="bench", budget=given.budget, concurrency=1, backend={"name": "cpp"})
            run = Run.create(Path(folder) / "run", config, tasks, {})
            run.lock()
            bank = Bank.open(Path(folder) / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="bench")
            bank.add(seeds("cpp"))
            instant = Instant()
            engine = Engine(
                run=run, generator=instant, policy=make_plugin("policy", "value"), memory=bank, executor=instant, distill=distill
            )
            profiler = cProfile.Profile()
            wall, cpu = time.perf_counter(), time.process_time()
            if given.profile:
                profiler.enable()
            attempts = sum(1 for _ in engine.attempts())
            profiler.disable()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"| {items} | {attempts} | {wall / attempts * 1e3:.2f} | {cpu / attempts * 1e3:.2f} |", flush=True)
            if given.profile:
                pstats.Stats(profiler).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
