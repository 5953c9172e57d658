"""What happened round by round: what memories were worth, which kinds were shown, why attempts failed, what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from evokernel.core.records import Attempt, Stage
from evokernel.reports import metrics
from evokernel.reports.metrics import Spread, Tried

ROLES = ("api", "practice", "bottleneck", "experience", "trace", "start", "child", "variant")
"""As a context is built up: knowledge first, then what was learned, then the kernel that is refined and its kin."""


class Spending(NamedTuple):
    """One way to count what attempts took."""

    label: str
    of: Callable[[Attempt], float]


def verification_s(attempt: Attempt) -> float:
    """Seconds that the judge took, over all gates."""
    return sum(gate.seconds for gate in attempt.outcome.gates)


MONEY = Spending("US dollars per operator", lambda attempt: attempt.usage.cost_usd or 0.0)
TOKENS = Spending(
    "tokens read and written per operator", lambda attempt: (attempt.usage.input_tokens or 0) + (attempt.usage.output_tokens or 0)
)
SECONDS = Spending("seconds of verification per operator", verification_s)


def spending(attempts: Iterable[Attempt]) -> Spending | None:
    """In money where every model call has a price, else in tokens where they are known, else in time; None where nothing was kept."""
    made = list(attempts)
    asked = [attempt.usage for attempt in made if attempt.usage.calls]
    if asked and all(usage.cost_usd is not None for usage in asked) and any(usage.cost_usd for usage in asked):
        return MONEY
    if asked and all(usage.input_tokens is not None and usage.output_tokens is not None for usage in asked):
        return TOKENS
    return SECONDS if any(map(verification_s, made)) else None


def longest(found: Sequence[Tried]) -> int:
    """The most attempts that any operator had."""
    return max((len(tried.attempts) for tried in found), default=0)


def by_round(found: Sequence[Tried]) -> list[list[Attempt]]:
    """Everybody's first attempts, then everybody's second ones."""
    return [[tried.attempts[n] for tried in found if n < len(tried.attempts)] for n in range(longest(found))]


def worth(found: Sequence[Tried], stage: Stage) -> list[tuple[int, Spread]]:
    """Q of what was shown to drafts (Q1) or refinements (Q2) at that moment, round by round; rounds without any are left out."""
    spreads = []
    for number, attempts in enumerate(by_round(found), start=1):
        values = [ref.q for attempt in attempts if attempt.stage is stage for ref in attempt.shown_items if ref.q is not None]
        if spread := metrics.spread(values):
            spreads.append((number, spread))
    return spreads


def roles(found: Sequence[Tried]) -> list[Counter[str]]:
    """How often a memory was shown as what, round by round."""
    return [Counter(ref.role for attempt in attempts for ref in attempt.shown_items) for attempts in by_round(found)]


def spent(found: Sequence[Tried], counted: Spending) -> list[float]:
    """Up to and with each round, per operator."""
    total, path = 0.0, []
    for attempts in by_round(found):
        total += sum(map(counted.of, attempts))
        path.append(total / len(found))
    return path


class Shown(NamedTuple):
    """A memory item as one run showed it."""

    id: str
    role: str
    """The one it was shown in most."""
    times: int
    operators: int
    q1: float | None
    """As it was last seen when drafting."""
    q2: float | None


def shown_most(found: Sequence[Tried], most: int) -> list[Shown]:
    """Valued memories of a run that were shown most often."""
    seen: dict[str, list[tuple[Attempt, str, float]]] = {}
    for attempts in by_round(found):
        for attempt in attempts:
            for ref in attempt.shown_items:
                if ref.q is not None:
                    seen.setdefault(ref.id.removeprefix(f"{attempt.run}:"), []).append((attempt, ref.role, ref.q))
    ranked = sorted(seen, key=lambda id: (-len(seen[id]), id))[:most]
    rows = []
    for id in ranked:
        last = {attempt.stage: q for attempt, _, q in seen[id]}
        role = Counter(role for _, role, _ in seen[id]).most_common(1)[0][0]
        tasks = {attempt.task for attempt, _, _ in seen[id]}
        rows.append(Shown(id, role, len(seen[id]), len(tasks), last.get(Stage.DRAFT), last.get(Stage.REFINE)))
    return rows
