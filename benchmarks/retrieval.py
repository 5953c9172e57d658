"""Measures the cost of memory per attempt as the bank grows: choosing, learning and adding. `python benchmarks/retrieval.py [ITEMS ...]`.

Every attempt chooses, learns and adds as the loop does, with a bank that already has ITEMS items. `shared` keys: the items come from 200
tasks, as in a run where attempts on one task share its reference. `distinct` keys: every item has a different key, the worst case for
search. The figures are CPU time in ms, which other load does not affect: medians, with the 95th percentile in brackets. `wall` is the
same in wall time. The first choice on a task, which embeds its query for the first time, is a separate column.
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
    Task,
    Work,
)
from evokernel.core.state import State
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.seed_cards import load_seed_cards

TASKS, ROUNDS = 16, 8
GOAL_MS = 5.0
T = TypeVar("T")


@cache
def load_corpus_lines() -> list[str]:
    """Return lines of real code and prose: those of this package."""
    folder = Path(str(resources.files("evokernel")))
    files = sorted(file for kind in ("*.py", "*.md", "*.cpp") for file in folder.rglob(kind))
    return [line for file in files for line in file.read_text().splitlines() if line.strip()]


def make_text(rng: random.Random, size: int = 2048) -> str:
    """Return `size` characters in passages of ten lines."""
    passages = ""
    while len(passages) < size:
        start = rng.randrange(len(load_corpus_lines()) - 10)
        passages += "\n".join(load_corpus_lines()[start : start + 10]) + "\n"
    return passages[:size]


def make_task(n: int, rng: random.Random) -> Task:
    return Task(
        id=f"bench/task{n}",
        family=f"family{n % 8}",
        source=make_text(rng),
        signature=Signature(inputs=(), outputs=()),
        work=Work(flops=1, bytes=1),
        sizes={},
    )


def fill_bank(bank: Bank, items: int, has_shared_keys: bool) -> None:
    """Add items as if from earlier runs: traces with code, and notes; half of them correct."""
    rng = random.Random(1)
    sources = [make_text(rng) for _ in range(200)]
    code = [make_text(rng) for _ in range(50)]
    while items > 0:
        batch = []
        for n in range(items - min(items, 1000), items):
            key = sources[n % 200] if has_shared_keys else make_text(rng)
            result_fields = {"feasible": n % 4 < 2, "speedup": rng.random() * 4, "latency_us": rng.random() * 100, "bottleneck": "memory"}
            kind = "trace" if n % 2 else "experience"
            batch.append(
                MemoryItem(
                    id=f"old:{n}",
                    kind=kind,
                    backend="cpp",
                    title=f"item {n}",
                    text="the attempt in a few words",
                    code=code[n % 50] if n % 2 else "",
                    key=key,
                    task=f"old/{n % 200}",
                    **result_fields,
                )
            )
        bank.add(batch)
        items -= len(batch)


def simulate_attempts(bank: Bank, tasks: list[Task]) -> Iterator[tuple[int, Duration, Duration, Duration]]:
    """Simulate rounds of the loop; yield, for every attempt, the round and the durations of choose, learn and add."""
    policy = make_plugin("policy", "value", seed=0)
    rng = random.Random(2)
    history: dict[str, list[Attempt]] = {task.id: [] for task in tasks}
    for round_ in range(ROUNDS):
        for state in [State(task=task, attempts=tuple(history[task.id]), round=round_) for task in tasks]:
            choose_time, context = measure_duration(lambda state=state: policy.choose(state, bank))
            is_correct = rng.random() < 0.6
            latency = rng.random() * 100
            attempt = Attempt(
                id=state.next_id,
                run="bench",
                task=state.task.id,
                round=round_,
                stage=context.stage,
                start_point=context.start_point and context.start_point.id,
                shown_items=tuple(ContextRef(id=entry.item.id, role=entry.role, q=entry.q) for entry in context.items),
                candidate=Candidate(backend="cpp", files={"kernel.cpp": make_text(rng)}),
                outcome=Outcome(
                    gates=(
                        GateResult(
                            gate="check", passed=is_correct, reason="" if is_correct else "mismatch", detail="" if is_correct else "wrong"
                        ),
                    ),
                    samples_us=(latency,) * 12 if is_correct else (),
                    baseline_us={"eager": (50.0,) * 12} if is_correct else {},
                    profile=Profile(bottleneck="memory", summary="reads twice") if is_correct else None,
                ),
                reward=rng.random() if is_correct else -1.0,
            )
            learn_time, _ = measure_duration(lambda state=state, attempt=attempt: policy.learn(state, attempt, bank))
            add_time, _ = measure_duration(lambda state=state, attempt=attempt: bank.add(distill(state.task, attempt, state.attempts)))
            history[state.task.id].append(attempt)
            yield round_, choose_time, learn_time, add_time


class Duration(NamedTuple):
    """CPU time and wall time of an action."""

    cpu_ms: float
    wall_ms: float


def measure_duration(action: Callable[[], T]) -> tuple[Duration, T]:
    start_wall, start_cpu = time.perf_counter(), time.process_time()
    result = action()
    return Duration((time.process_time() - start_cpu) * 1e3, (time.perf_counter() - start_wall) * 1e3), result


def format_quantiles(samples: list[float]) -> str:
    sorted_samples = sorted(samples)
    return f"{sorted_samples[len(sorted_samples) // 2]:.2f} ({sorted_samples[int(len(sorted_samples) * 0.95)]:.2f})"


def measure_bank(items: int, has_shared_keys: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, embedder = Path(folder) / "bank.db", make_plugin("embedder", "hash")
        with Bank.open(path, embedder, backend="cpp", run="earlier") as bank:
            bank.add(load_seed_cards("cpp"))
            fill_bank(bank, items - len(load_seed_cards("cpp")), has_shared_keys)
        open_time, bank = measure_duration(lambda: Bank.open(path, embedder, backend="cpp", run="bench"))
        rng = random.Random(3)
        rows = list(simulate_attempts(bank, [make_task(n, rng) for n in range(TASKS)]))
        queries = [make_text(rng) for _ in range(30)]
        new_query_ms, repeated_query_ms = (
            [measure_duration(lambda q=q: bank.search(q, 64, ("trace", "experience")))[0].cpu_ms for q in queries] for _ in range(2)
        )
        bank.close()
    later_rows = [row[1:] for row in rows if row[0] > 0]
    part_cells = [format_quantiles([durations[k].cpu_ms for durations in later_rows]) for k in range(3)]
    total_ms = [sum(duration.cpu_ms for duration in row[1:]) for row in rows]
    wall_ms = [sum(duration.wall_ms for duration in row[1:]) for row in rows]
    first_choice_ms = [row[1].cpu_ms for row in rows if row[0] == 0]
    share = sorted(total_ms)[len(total_ms) // 2] / GOAL_MS
    cells = [
        *part_cells,
        format_quantiles(total_ms),
        f"{share:.2f}",
        format_quantiles(wall_ms),
        format_quantiles(first_choice_ms),
        format_quantiles(repeated_query_ms),
        format_quantiles(new_query_ms),
    ]
    print_row(f"{items}", "shared" if has_shared_keys else "distinct", *cells, f"{open_time.cpu_ms:.0f}")


def print_row(*cells: str) -> None:
    print(" ".join(f"{cell:>13}" for cell in cells))


def print_embedding_rate() -> None:
    rng = random.Random(4)
    texts = [make_text(rng) for _ in range(500)]
    embedder = make_plugin("embedder", "hash")
    embedder.embed(texts[:50])
    duration, _ = measure_duration(lambda: embedder.embed(texts))
    print(f"\n{embedder.id}: {len(texts) / duration.cpu_ms * 1e3:.0f} texts of 2 KB per second of CPU time")


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000]
    print("CPU time in ms per attempt, policy `value`\n")
    print_row("items", "keys", "choose", "learn", "add", "total", "/ 5 ms", "wall", "first choice", "same query", "new query", "open")
    for items in sizes:
        for has_shared_keys in (True, False):
            measure_bank(items, has_shared_keys)
    print_embedding_rate()


if __name__ == "__main__":
    main()
