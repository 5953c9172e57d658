"""A run in one row of the list, and as a line of the chart that compares runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from evokernel.core.run import Run
from evokernel.reports import formatting, metrics, round_stats
from evokernel.reports.metrics import Tried
from evokernel.web.run_tail import Followed

MEASURES = {"correct": "tasks correct, %", "compiled": "tasks compiled, %", "reward": "mean reward", "spent": "spent"}
"""What runs can be compared by."""
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Row:
    """What the list knows about a run after its attempts were let go."""

    key: str
    id: str = ""
    backend: str = ""
    generator: str = ""
    model: str = ""
    policy: str = ""
    suite: str = ""
    tasks: int = 0
    attempts: int = 0
    planned: int = 0
    compiled: float | None = None
    correct: float | None = None
    geomean: float | None = None
    best: tuple[str, float] | None = None
    """The task with the largest speed-up, and that."""
    baseline: str = ""
    clock: str = ""
    cost: str = ""
    seconds: float | None = None
    at: float | None = None
    """When the last attempt was finished."""
    is_over: bool = False
    notes: tuple[str, ...] = ()
    paths: dict[str, Points] = field(default_factory=dict)
    """By measure: value after so many attempts per task."""
    spent_in: str = ""

    @property
    def state(self) -> str:
        if not self.id:
            return "damaged"
        return "finished" if self.is_over else "unfinished"


def summarise(followed: Followed) -> Row:
    """A run as the list shows it."""
    return followed.once("row", lambda: row_of(followed))


def row_of(followed: Followed) -> Row:
    """Worked out anew."""
    run = followed.run
    if run is None:
        return Row(followed.key, notes=tuple(followed.notes))
    found, attempts = followed.found, followed.attempts
    usage, config = metrics.usage(attempts), run.config
    fastest = max(((tried.task.id, tried.speedup) for tried in found if tried.speedup), key=lambda pair: pair[1], default=None)
    count = len(found)
    return Row(
        followed.key,
        id=config.id,
        backend=formatting.backend(config.plugin_name("backend"), run.facts),
        generator=config.plugin_name("generator"),
        model=usage.model or str(config.generator.get("model") or ""),
        policy=config.plugin_name("policy"),
        suite=config.tasks,
        tasks=count,
        attempts=len(attempts),
        planned=planned(run, found),
        compiled=metrics.compiled(found) / count if count else None,
        correct=metrics.feasible(found) / count if count else None,
        geomean=metrics.geomean(metrics.speedups(found)),
        best=fastest,
        baseline=formatting.baseline_label(metrics.baselines(found)) if metrics.baselines(found) else "",
        clock=formatting.clock_label(metrics.clocks(attempts)),
        cost=formatting.cost(usage),
        seconds=metrics.span_s(attempts),
        at=max((attempt.finished_at for attempt in attempts), default=0.0) or None,
        is_over=bool(found) and not any(config.remaining_attempts(tried.attempts) for tried in found),
        notes=tuple(followed.notes),
        paths=paths(found),
        spent_in=counted.label if (counted := round_stats.spending(attempts)) else "",
    )


def planned(run: Run, found: list[Tried]) -> int:
    """How many attempts there will be, as far as can be said now."""
    return sum(len(tried.attempts) + run.config.remaining_attempts(tried.attempts) for tried in found)


def paths(found: list[Tried]) -> dict[str, Points]:
    """A run's way by every measure; one that nothing is known of is empty."""
    count, curve = len(found), metrics.curve(found)
    by_round = round_stats.by_round(found)
    counted = round_stats.spending(attempt for tried in found for attempt in tried.attempts)
    return {
        "correct": [(number, 100 * right / count) for number, _, right in curve],
        "compiled": [(number, 100 * built / count) for number, built, _ in curve],
        "reward": [(n, sum(a.reward for a in made) / len(made)) for n, made in enumerate(by_round, start=1) if made],
        "spent": list(enumerate(round_stats.spent(found, counted), start=1)) if counted else [],
    }
