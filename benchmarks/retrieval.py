"""What memory costs the loop: choosing, learning and adding per attempt as the bank grows. `python benchmarks/retrieval.py [ITEMS ...]`.

Every attempt is chosen, learned and added the way the loop does it, on a bank that already holds so many items. `shared keys`: the items
come from 200 tasks, as in a run (attempts on one task are found by the same reference). `distinct keys`: every item has a key of its own,
the worst case for search. Processor time in ms, which others on the machine do not disturb: medians, with the 95th percentile in
brackets; `wall` is the same by the clock on the wall. The first choice on a task, which meets its query for the first time, is apart.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, TypeVar

from evokernel.core.plugins import make_plugin
from evokernel.core.records import (
    Attempt,
    Candidate,
    ContextRef,
    GateResult,
    MemoryItem,
    Outcome,
    Profile,
    Signature,
    State,
    Task,
    Work,
)
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import seeds

TASKS, ROUNDS = 16, 8
LIMIT_MS = 5.0
T = TypeVar("T")


@cache
def corpus() -> list[str]:
    """Lines of real code and prose: the package's own."""
    folder = Path(str(resources.files("evokernel")))
    files = sorted(file for kind in ("*.py", "*.md", "*.cpp") for file in folder.rglob(kind))
    return [line for file in files for line in file.read_text().splitlines() if line.strip()]


def text(chance: random.Random, size: int = 2048) -> str:
    """About `size` characters in passages of ten lines."""
    found = ""
    while len(found) < size:
        at = chance.randrange(len(corpus()) - 10)
        found += "\n".join(corpus()[at : at + 10]) + "\n"
    return found[:size]


def task(n: int, chance: random.Random) -> Task:
    return Task(
        id=f"bench/task{n}",
        family=f"family{n % 8}",
        source=text(chance),
        signature=Signature(inputs=(), outputs=()),
        work=Work(flops=1, bytes=1),
        sizes={},
    )


def fill(bank: Bank, items: int, shared: bool) -> None:
    """Items as earlier runs would have left them: traces with code and notes, half of them correct."""
    chance = random.Random(1)
    sources = [text(chance) for _ in range(200)]
    code = [text(chance) for _ in range(50)]
    while items > 0:
        batch = []
        for n in range(items - min(items, 1000), items):
            key = sources[n % 200] if shared else text(chance)
            more = {"feasible": n % 4 < 2, "speedup": chance.random() * 4, "latency_us": chance.random() * 100, "bottleneck": "memory"}
            kind = "trace" if n % 2 else "experience"
            batch.append(
                MemoryItem(
                    id=f"old:{n}",
                    kind=kind,
                    backend="cpp",
                    title=f"item {n}",
                    text="what happened",
                    code=code[n % 50] if n % 2 else "",
                    key=key,
                    task=f"old/{n % 200}",
                    **more,
                )
            )
        bank.add(batch)
        items -= len(batch)


def attempts(bank: Bank, tasks: list[Task]) -> Iterator[tuple[int, Spent, Spent, Spent]]:
    """Plays rounds like the loop; gives the round and what choose, learn and add took for every attempt."""
    policy = make_plugin("policy", "value", seed=0)
    chance = random.Random(2)
    history: dict[str, list[Attempt]] = {task.id: [] for task in tasks}
    for round in range(ROUNDS):
        for state in [State(task=task, attempts=tuple(history[task.id]), round=round) for task in tasks]:
            choose_took, context = timed(lambda state=state: policy.choose(state, bank))
            correct = chance.random() < 0.6
            latency = chance.random() * 100
            made = Attempt(
                id=state.next_id,
                run="bench",
                task=state.task.id,
                round=round,
                stage=context.stage,
                start_point=context.start and context.start.id,
                shown_items=tuple(ContextRef(id=shown.item.id, role=shown.role, q=shown.q) for shown in context.items),
                candidate=Candidate(backend="cpp", files={"kernel.cpp": text(chance)}),
                outcome=Outcome(
                    gates=(
                        GateResult(gate="check", passed=correct, reason="" if correct else "mismatch", detail="" if correct else "wrong"),
                    ),
                    samples_us=(latency,) * 12 if correct else (),
                    baseline_us={"eager": (50.0,) * 12} if correct else {},
                    profile=Profile(bottleneck="memory", summary="reads twice") if correct else None,
                ),
                reward=chance.random() if correct else -1.0,
            )
            learn_took, _ = timed(lambda state=state, made=made: policy.learn(state, made, bank))
            add_took, _ = timed(lambda state=state, made=made: bank.add(distill(state.task, made, state.attempts)))
            history[state.task.id].append(made)
            yield round, choose_took, learn_took, add_took


class Spent(NamedTuple):
    """Milliseconds something took."""

    cpu_ms: float
    wall_ms: float


def timed(action: Callable[[], T]) -> tuple[Spent, T]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = action()
    return Spent((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3), result


def quantiles(samples: list[float]) -> str:
    ordered = sorted(samples)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[int(len(ordered) * 0.95)]:.2f})"


def measure(items: int, shared: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, embedder = Path(folder) / "bank.db", make_plugin("embedder", "hash")
        with Bank.open(path, embedder, backend="cpp", run="earlier") as bank:
            bank.add(seeds("cpp"))
            fill(bank, items - len(seeds("cpp")), shared)
        opening, bank = timed(lambda: Bank.open(path, embedder, backend="cpp", run="bench"))
        chance = random.Random(3)
        rows = list(attempts(bank, [task(n, chance) for n in range(TASKS)]))
        queries = [text(chance) for _ in range(30)]
        new, again = ([timed(lambda q=q: bank.search(q, 64, ("trace", "experience")))[0].cpu_ms for q in queries] for _ in range(2))
        bank.close()
    later = [row[1:] for row in rows if row[0] > 0]
    parts = [quantiles([took[k].cpu_ms for took in later]) for k in range(3)]
    together = [sum(spent.cpu_ms for spent in row[1:]) for row in rows]
    wall = [sum(spent.wall_ms for spent in row[1:]) for row in rows]
    first = [row[1].cpu_ms for row in rows if row[0] == 0]
    share = sorted(together)[len(together) // 2] / LIMIT_MS
    cells = [*parts, quantiles(together), f"{share:.2f}", quantiles(wall), quantiles(first), quantiles(again), quantiles(new)]
    line(f"{items}", "shared" if shared else "distinct", *cells, f"{opening.cpu_ms:.0f}")


def line(*cells: str) -> None:
    print(" ".join(f"{cell:>13}" for cell in cells))


def embedding_rate() -> None:
    chance = random.Random(4)
    texts = [text(chance) for _ in range(500)]
    embedder = make_plugin("embedder", "hash")
    embedder.embed(texts[:50])
    spent, _ = timed(lambda: embedder.embed(texts))
    print(f"\n{embedder.id}: {len(texts) / spent.cpu_ms * 1e3:.0f} texts of 2 KB per second of processor time")


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000]
    print("ms per attempt, policy `value`\n")
    line("items", "keys", "choose", "learn", "add", "together", "/ 5 ms", "wall", "first choice", "search again", "search new", "open")
    for items in sizes:
        for shared in (True, False):
            measure(items, shared)
    embedding_rate()


if __name__ == "__main__":
    main()
