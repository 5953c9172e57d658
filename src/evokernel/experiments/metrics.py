"""The figures an experiment tells of every operator under every seed; means of them, with intervals, are what its tables show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import log
from typing import Literal, NamedTuple

from evokernel.experiments.intervals import Grid, Interval, chance, difference, grid, interval, share_interval
from evokernel.reports import formatting
from evokernel.reports.metrics import Tried

Figure = Callable[[Tried], float | None]
Seeds = Mapping[int, Sequence[Tried]]
LEAST_P = 0.001
"""What is less likely is not told more exactly."""


class Measure(NamedTuple):
    """A figure with its name, and how its mean is shown."""

    name: str
    figure: Figure
    unit: Literal["share", "ratio", "number"]
    means: str = ""

    def show(self, found: Interval | None) -> str:
        return SHOWN[self.unit](found)

    def of(self, seeds: Seeds) -> Interval | None:
        return (share_interval if self.unit == "share" else interval)(self.grid(seeds))

    def grid(self, seeds: Seeds) -> Grid:
        return grid(seeds, self.figure)

    def apart(self, one: Seeds, other: Seeds) -> Apart | None:
        """Operator by operator and seed by seed; of ratios, the logarithm."""
        first, second = self.grid(one), self.grid(other)
        found = difference(first, second)
        return None if found is None else Apart(found, chance(first - second))

    def show_apart(self, found: Apart | None) -> str:
        """`+10 points [3 to 17], p = 0.012`."""
        if found is None:
            return formatting.UNKNOWN
        text = points(found.by) if self.unit == "share" else self.show(found.by)
        return text + found.chance


class Apart(NamedTuple):
    """How much one arm lies above another, and how often chance would give as much."""

    by: Interval
    p: float | None

    @property
    def chance(self) -> str:
        """`, p = 0.012`; nothing where there are too few operators."""
        if self.p is None:
            return ""
        return f", p = {self.p:.3f}" if self.p >= LEAST_P else f", p < {LEAST_P}"


def share(found: Interval | None) -> str:
    """`45 % [38 to 52]`."""
    return formatting.UNKNOWN if found is None else f"{100 * found.mean:.0f} % [{100 * found.low:.0f} to {100 * found.high:.0f}]"


def points(found: Interval) -> str:
    """`+10 points [3 to 17]`: a difference of shares. An end that is not quite 0 does not look like it."""
    low, high = (f"{100 * end:z.0f}" if abs(end) >= 0.005 or not end else f"{100 * end:z.1g}" for end in (found.low, found.high))
    return f"{100 * found.mean:+z.0f} points [{low} to {high}]"


def ratio(found: Interval | None) -> str:
    """`1.20× [1.05 to 1.41]`, of logarithms. An end that is not quite 1 does not look like it."""
    if found is None:
        return formatting.UNKNOWN
    means = found.exp()
    low, high = (
        formatting.digits(end) if end == 1 or formatting.digits(end) != "1.00" else f"{end:.3f}" for end in (means.low, means.high)
    )
    return f"{formatting.ratio(means.mean)} [{low} to {high}]"


def number(found: Interval | None) -> str:
    """`4.12 [3.20 to 5.31]`."""
    return formatting.UNKNOWN if found is None else f"{found.mean:.2f} [{found.low:.2f} to {found.high:.2f}]"


SHOWN = {"share": share, "ratio": ratio, "number": number}


def compiled(rounds: int | None = None) -> Figure:
    """CR: something compiles within so many attempts."""
    return lambda tried: float(any(attempt.outcome.is_compiled for attempt in tried.attempts[:rounds]))


def feasible(rounds: int | None = None) -> Figure:
    """Acc: something is feasible within so many attempts, as the loop judged it."""
    return lambda tried: float(any(attempt.outcome.feasible for attempt in tried.attempts[:rounds]))


def holds(protocol: str) -> Figure:
    """Acc by another protocol than the loop's, as far as kernels were judged by it; no figure where one that matters was not."""

    def figure(tried: Tried) -> float | None:
        judged = [final.outcome for final in (*tried.finals.values(), *(tried.others or {}).values())]
        if any(outcome.feasible and outcome.protocol == protocol for outcome in judged):
            return 1.0
        is_unseen = tried.solved and not tried.final  # the judge had trouble of its own
        return None if is_unseen or (protocol == "paper" and tried.others is None) else 0.0

    return figure


def without(vacuous: Collection[str], figure: Figure) -> Figure:
    """Of the other operators only."""
    return lambda tried: None if tried.task.id in vacuous or "vacuous" in tried.task.tags else figure(tried)


def attempts_spent(tried: Tried) -> float:
    """Up to the first one that the loop found feasible, or all."""
    return float(next((at for at, made in enumerate(tried.attempts, start=1) if made.outcome.feasible), len(tried.attempts)))


def over(name: str) -> Figure:
    """The best kernel's speed over a baseline's, as a logarithm."""

    def figure(tried: Tried) -> float | None:
        outcome = tried.outcome
        base = outcome.baseline_latency_us(name) if outcome else None
        return log(base / outcome.latency_us) if outcome and base and outcome.latency_us else None

    return figure


def faster(name: str, p: float = 1.0) -> Figure:
    """fast_p over correct: 1 where the best kernel is more than p times as fast as a baseline; no figure without a correct one."""
    return lambda tried: None if (found := over(name)(tried)) is None else float(found > log(p))


def faster_of_all(name: str, p: float = 1.0) -> Figure:
    """fast_p over all operators: one without a correct kernel is not faster; no figure for a correct one that was not timed so."""

    def figure(tried: Tried) -> float | None:
        return faster(name, p)(tried) if tried.solved else 0.0

    return figure


def gain(tried: Tried) -> float | None:
    """First correct to best, as a logarithm; of operators with a further correct kernel."""
    return log(tried.gain) if tried.gain and len(tried.correct) > 1 else None


def of_the_floor(tried: Tried) -> float | None:
    """The share of what the device's ceilings allow, as a logarithm."""
    outcome = tried.outcome
    return log(tried.floor_us / outcome.latency_us) if outcome and outcome.latency_us and tried.floor_us else None
