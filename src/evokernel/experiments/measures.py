"""The figures an experiment tells of every operator under every seed; means of them, with intervals, are what its tables show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Literal, NamedTuple

from evokernel.experiments.intervals import Grid, Interval, difference, grid, interval
from evokernel.reports import words
from evokernel.reports.metrics import Tried

Figure = Callable[[Tried], float | None]
Seeds = Mapping[int, Sequence[Tried]]


class Measure(NamedTuple):
    """A figure with its name, and how its mean is shown."""

    name: str
    figure: Figure
    unit: Literal["share", "ratio", "number"]
    means: str = ""

    def show(self, found: Interval | None) -> str:
        return SHOWN[self.unit](found)

    def of(self, seeds: Seeds) -> Interval | None:
        return interval(self.grid(seeds))

    def grid(self, seeds: Seeds) -> Grid:
        return grid(seeds, self.figure)

    def apart(self, one: Seeds, other: Seeds) -> Interval | None:
        """Operator by operator and seed by seed; of ratios, the logarithm."""
        return difference(self.grid(one), self.grid(other))


def share(found: Interval | None) -> str:
    """`45 % (38 to 52)`."""
    return words.UNKNOWN if found is None else f"{100 * found.mean:.0f} % ({100 * found.low:.0f} to {100 * found.high:.0f})"


def ratio(found: Interval | None) -> str:
    """`1.20× (1.05 to 1.41)`, of logarithms."""
    if found is None:
        return words.UNKNOWN
    means = found.exp()
    return f"{words.ratio(means.mean)} ({words.digits(means.low)} to {words.digits(means.high)})"


def number(found: Interval | None) -> str:
    """`4.1 (3.2 to 5.3)`."""
    return words.UNKNOWN if found is None else f"{found.mean:.1f} ({found.low:.1f} to {found.high:.1f})"


SHOWN = {"share": share, "ratio": ratio, "number": number}


def compiled(rounds: int | None = None) -> Figure:
    """CR: something compiles within so many attempts."""
    return lambda tried: float(any(attempt.outcome.compiled for attempt in tried.attempts[:rounds]))


def feasible(rounds: int | None = None) -> Figure:
    """Acc: something is feasible within so many attempts, as the loop judged it."""
    return lambda tried: float(any(attempt.outcome.feasible for attempt in tried.attempts[:rounds]))


def holds(tried: Tried) -> float:
    """The same after bests were judged again, which may have been by another protocol."""
    return float(tried.solved)


def not_vacuous(figure: Figure) -> Figure:
    """Without operators that something passes for which computes nothing."""
    return lambda tried: None if "vacuous" in tried.task.tags else figure(tried)


def attempts_spent(tried: Tried) -> float:
    """Up to the first feasible one, or all."""
    return float(tried.first_round or len(tried.attempts))


def over(name: str) -> Figure:
    """The best kernel's speed over a baseline's, as a logarithm."""

    def figure(tried: Tried) -> float | None:
        outcome = tried.outcome
        base = outcome.baseline(name) if outcome else None
        return log(base / outcome.latency_us) if outcome and base and outcome.latency_us else None

    return figure


def faster(name: str) -> Figure:
    """1 where the best kernel is faster than a baseline; no figure where there is no correct one."""
    return lambda tried: None if (found := over(name)(tried)) is None else float(found > 0)


def faster_of_all(name: str) -> Figure:
    """The same over all operators: one without a correct kernel is not faster."""
    return lambda tried: float((over(name)(tried) or -1.0) > 0)


def gain(tried: Tried) -> float | None:
    """First correct to best, as a logarithm."""
    return log(tried.gain) if tried.gain else None


def of_the_floor(tried: Tried) -> float | None:
    """The share of what the device's ceilings allow."""
    outcome = tried.outcome
    return tried.floor_us / outcome.latency_us if outcome and outcome.latency_us and tried.floor_us else None


def rates(is_judged_again: bool) -> list[Measure]:
    """CR and Acc, at the first attempt and at the end; and once more where bests were judged again."""
    again = Measure("Acc, judged again", holds, "share", "the same for bests that were judged again when the run was over")
    return [
        Measure("CR, round 1", compiled(1), "share", "operators with a candidate that compiles"),
        Measure("CR", compiled(), "share"),
        Measure("Acc, round 1", feasible(1), "share", "operators with a feasible candidate"),
        Measure("Acc", feasible(), "share"),
        *([again] if is_judged_again else []),
        Measure("Acc, not vacuous", not_vacuous(feasible()), "share", "without operators that something passes for which computes nothing"),
    ]


def speeds(names: Sequence[str]) -> list[Measure]:
    """How fast bests are, against every baseline there is."""
    found = [Measure("first→best", gain, "ratio"), Measure("of the floor", of_the_floor, "share")]
    for name in names:
        base = words.baseline([name])
        found += [
            Measure(f"over {base}", over(name), "ratio", "geometric mean of the best kernels"),
            Measure(f"faster than {base}", faster(name), "share", "of operators with a correct kernel"),
            Measure(f"faster than {base}, of all", faster_of_all(name), "share"),
        ]
    return found
