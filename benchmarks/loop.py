"""Measures the loop overhead per attempt: everything except the model, the build and the execution, with a bank of 10,000 items.

    python benchmarks/loop.py [--items 10000] [--budget 12] [--profile]

The generator and the executor answer at once, so only choosing, learning, embedding, storing and journalling remain. Prints wall time and
CPU time per attempt; `--profile` adds the functions that take most time.
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
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.suites.loader import load_tasks

CODE = "".join(f"    out[i + {i}] = x[i + {i}] * scale[{i}] + shift[{i}];\n" for i in range(40))


class InstantParts:
    """A generator and an executor that answer at once, so that only the loop takes time."""

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


def fill_bank(path: Path, items: int, sources: list[str]) -> None:
    """Write a bank with this number of items, as if from an earlier run."""
    bank = Bank.open(path, make_plugin("embedder", "hash"), backend="cpp", run="earlier")
    memory_items = []
    for n in range(items):
        source = sources[n % len(sources)]
        memory_items.append(
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
    for start in range(0, items, 500):
        bank.add(memory_items[start : start + 500])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--budget", type=int, default=12)
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    tasks = load_tasks("starter")
    print("| items | attempts | wall ms/attempt | cpu ms/attempt |\n|---|---|---|---|")
    for items in sorted({100, args.items}):
        with tempfile.TemporaryDirectory() as folder:
            fill_bank(Path(folder) / "bank.db", items, [task.source for task in tasks])
            config = RunConfig(id="bench", budget=args.budget, concurrency=1, backend={"name": "cpp"})
            run = Run.create(Path(folder) / "run", config, tasks, {})
            run.lock()
            bank = Bank.open(Path(folder) / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="bench")
            bank.add(load_seed_cards("cpp"))
            parts = InstantParts()
            engine = Engine(run=run, generator=parts, policy=make_plugin("policy", "value"), memory=bank, executor=parts, distill=distill)
            profiler = cProfile.Profile()
            wall, cpu = time.perf_counter(), time.process_time()
            if args.profile:
                profiler.enable()
            attempts = sum(1 for _ in engine.make_attempts())
            profiler.disable()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"| {items} | {attempts} | {wall / attempts * 1e3:.2f} | {cpu / attempts * 1e3:.2f} |", flush=True)
            if args.profile:
                pstats.Stats(profiler).sort_stats("cumulative").print_stats(25)


if __name__ == "__main__":
    main()
