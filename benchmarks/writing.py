"""How long `sweep` takes to write a candidate: with nothing known of the task, and after that.

    python benchmarks/writing.py [--tasks starter,level1,level2] [--backend cpp pallas] [--draws 20]

The first candidate of a task in a process includes reading the trace from the cache (tracing itself where there is none: `--trace` empties
it first), cutting it into stages and compiling templates. Later ones are drafts with a context of earlier kernels. Nothing is verified.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from os import environ
from statistics import median

from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Generator
from evokernel.core.records import Context, ContextItem, MemoryItem, Stage, State, Task
from evokernel.core.statistics import quantile
from evokernel.tasks.loader import load

SHOWN = 8


def seconds(generator: Generator, state: State, context: Context) -> tuple[float, str]:
    """One candidate and what it took."""
    begun = time.perf_counter()
    reply = generator.write(state, context)
    return time.perf_counter() - begun, reply.candidate.code if reply.candidate.files else ""


def timed(task: Task, backend: str, draws: int) -> tuple[float, list[float]] | None:
    """Of one task: the first candidate, then each of the others; None where there is no sketch."""
    items: list[ContextItem] = []
    first = 0.0
    later: list[float] = []
    for seed in range(draws + 1):
        generator = make_plugin("generator", "template_search", backend=backend, seed=seed)
        took, code = seconds(generator, State(task=task), Context(stage=Stage.DRAFT, items=tuple(items[-SHOWN:])))
        if not code:
            return None
        item = MemoryItem(
            id=str(seed), kind="trace", backend=backend, title="", text="", code=code, task=f"t{seed}", feasible=seed % 2 == 0
        )
        items.append(ContextItem(role="trace", item=item))
        first, later = (took, later) if seed == 0 else (first, [*later, took])
    return first, later


def main() -> None:
    """Prints one row per backend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="starter,level1,level2")
    parser.add_argument("--backend", nargs="+", default=["cpp", "pallas"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--trace", action="store_true", help="with an empty cache, so that every reference is traced")
    given = parser.parse_args()
    tasks = load(given.tasks)
    if given.trace:
        environ["EVOKERNEL_CACHE"] = tempfile.mkdtemp()
    print("| backend | tasks | first candidate, ms: median | longest | later ones, ms: median | 95 % | longest |")
    print("|---|---|---|---|---|---|---|")
    for backend in given.backend:
        found = [times for task in tasks if (times := timed(task, backend, given.draws))]
        first, later = [one for one, _ in found], [one for _, rest in found for one in rest]
        cells = [median(first), max(first), median(later), quantile(later, 0.95), max(later)]
        print(f"| `{backend}` | {len(found)} | {' | '.join(f'{1000 * cell:.0f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
