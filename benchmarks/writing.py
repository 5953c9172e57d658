"""Measures how long `template_search` takes to write a candidate: the first one of a task, and later ones.

    python benchmarks/writing.py [--tasks starter,level1,level2] [--backend cpp pallas] [--draws 20]

The time of the first candidate of a task in a process includes reading the trace from the cache, cutting it into stages and compiling
templates. With `--trace` the cache is empty, so the reference is traced as well. Later candidates are drafts with a context of earlier
kernels. Nothing is verified.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from os import environ
from statistics import median

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Generator
from evokernel.core.records import Context, ContextItem, MemoryItem, Stage, Task
from evokernel.core.state import State
from evokernel.core.statistics import quantile
from evokernel.suites.loader import load_tasks

MAX_ITEMS = 8


def write_timed(generator: Generator, state: State, context: Context) -> tuple[float, str]:
    """Write one candidate; return the seconds and the code."""
    start_s = time.perf_counter()
    reply = generator.write(state, context)
    return time.perf_counter() - start_s, reply.candidate.code if reply.candidate.files else ""


def time_task(task: Task, backend: str, draws: int) -> tuple[float, list[float]] | None:
    """Return the seconds for the first candidate of a task and for each later one; None if there is no template."""
    items: list[ContextItem] = []
    first = 0.0
    later: list[float] = []
    for seed in range(draws + 1):
        generator = make_plugin("generator", "template_search", backend=backend, seed=seed)
        elapsed_s, code = write_timed(generator, State(task=task), Context(stage=Stage.DRAFT, items=tuple(items[-MAX_ITEMS:])))
        if not code:
            return None
        item = MemoryItem(
            id=str(seed), kind="trace", backend=backend, title="", text="", code=code, task=f"t{seed}", feasible=seed % 2 == 0
        )
        items.append(ContextItem(role="trace", item=item))
        first, later = (elapsed_s, later) if seed == 0 else (first, [*later, elapsed_s])
    return first, later


def main() -> None:
    """Print one row per backend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="starter,level1,level2")
    parser.add_argument("--backend", nargs="+", default=["cpp", "pallas"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--trace", action="store_true", help="use an empty cache, so that every reference is traced")
    args = parser.parse_args()
    tasks = load_tasks(args.tasks)
    if args.trace:
        environ["EVOKERNEL_CACHE"] = tempfile.mkdtemp()
    print("| backend | tasks | first candidate, ms: median | longest | later candidates, ms: median | 95th percentile | longest |")
    print("|---|---|---|---|---|---|---|")
    for backend in args.backend:
        times_by_task = [task_times for task in tasks if (task_times := time_task(task, backend, args.draws))]
        first, later = [one for one, _ in times_by_task], [one for _, rest in times_by_task for one in rest]
        cells = [median(first), max(first), median(later), quantile(later, 0.95), max(later)]
        print(f"| `{backend}` | {len(times_by_task)} | {' | '.join(f'{1000 * cell:.0f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
