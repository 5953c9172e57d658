"""Computes statistics by round: values of shown memory items, their roles, failures and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evokernel.core.records import Attempt, Stage
from evokernel.reports import metrics
from evokernel.reports.metrics import Quartiles, TaskResult

ROLES = ("api", "practice", "bottleneck", "experience", "trace", "start", "child", "partner", "variant")
"""In the order of a prompt: knowledge, then learned items, then the refined kernel and its relatives."""


class CostUnit(NamedTuple):
    """A unit for the cost of attempts."""

    label: str
    measure: Callable[[Attempt], float]


def verification_s(attempt: Attempt) -> float:
    """Seconds of verification, over all gates; of an agent's trials, too."""
    trials = [trial.outcome for trial in attempt.tool_use.trials if trial.outcome] if attempt.tool_use else []
    return sum(gate.seconds for outcome in (attempt.outcome, *trials) for gate in outcome.gates)


MONEY = CostUnit("US dollars per operator", lambda attempt: attempt.usage.cost_usd or 0.0)
TOKENS = CostUnit(
    "tokens read and written per operator", lambda attempt: (attempt.usage.input_tokens or 0) + (attempt.usage.output_tokens or 0)
)
SECONDS = CostUnit("seconds of verification per operator", verification_s)


def choose_cost_unit(attempts: Iterable[Attempt]) -> CostUnit | None:
    """Return money if every model call has a price, otherwise tokens if known, otherwise time; None if no cost was recorded."""
    attempts = list(attempts)
    usages = [attempt.usage for attempt in attempts if attempt.usage.calls]
    if usages and all(usage.cost_usd is not None for usage in usages) and any(usage.cost_usd for usage in usages):
        return MONEY
    if usages and all(usage.input_tokens is not None and usage.output_tokens is not None for usage in usages):
        return TOKENS
    return SECONDS if any(map(verification_s, attempts)) else None


def max_attempts(results: Sequence[TaskResult]) -> int:
    """Return the largest number of attempts on one operator."""
    return max((len(result.attempts) for result in results), default=0)


def attempts_by_round(results: Sequence[TaskResult]) -> list[list[Attempt]]:
    """Return all operators' first attempts, then their second attempts, and so on."""
    return [[result.attempts[n] for result in results if n < len(result.attempts)] for n in range(max_attempts(results))]


def value_quartiles_by_round(results: Sequence[TaskResult], stage: Stage) -> list[tuple[int, Quartiles]]:
    """Return quartiles of Q of the items shown to drafts (Q1) or refinements (Q2) by round; rounds without items are omitted."""
    quartiles_by_round = []
    for number, attempts in enumerate(attempts_by_round(results), start=1):
        values = [ref.q for attempt in attempts if attempt.stage is stage for ref in attempt.shown_items if ref.q is not None]
        if quartiles := metrics.quartiles(values):
            quartiles_by_round.append((number, quartiles))
    return quartiles_by_round


def count_roles_by_round(results: Sequence[TaskResult]) -> list[Counter[str]]:
    """Count the roles of shown memory items by round."""
    return [Counter(ref.role for attempt in attempts for ref in attempt.shown_items) for attempts in attempts_by_round(results)]


def cumulative_costs(results: Sequence[TaskResult], unit: CostUnit) -> list[float]:
    """Return the mean cost per operator up to and including each round."""
    total, path = 0.0, []
    for attempts in attempts_by_round(results):
        total += sum(map(unit.measure, attempts))
        path.append(total / len(results))
    return path


class ShownItem(NamedTuple):
    """A memory item with how often and how one run showed it."""

    id: str
    role: str
    """The role in which it was shown most often."""
    times: int
    operators: int
    q1: float | None
    """Q1 when a draft was last shown the item."""
    q2: float | None
    """Q2 when a refinement was last shown the item."""


def most_shown_items(results: Sequence[TaskResult], limit: int) -> list[ShownItem]:
    """Return the memory items with a value that a run showed most often."""
    uses: dict[str, list[tuple[Attempt, str, float]]] = {}
    for attempts in attempts_by_round(results):
        for attempt in attempts:
            for ref in attempt.shown_items:
                if ref.q is not None:
                    uses.setdefault(ref.id.removeprefix(f"{attempt.run}:"), []).append((attempt, ref.role, ref.q))
    most_used = sorted(uses, key=lambda id: (-len(uses[id]), id))[:limit]
    rows = []
    for id in most_used:
        last = {attempt.stage: q for attempt, _, q in uses[id]}
        role = Counter(role for _, role, _ in uses[id]).most_common(1)[0][0]
        tasks = {attempt.task for attempt, _, _ in uses[id]}
        rows.append(ShownItem(id, role, len(uses[id]), len(tasks), last.get(Stage.DRAFT), last.get(Stage.REFINE)))
    return rows
