"""Computes an experiment's metrics for every operator and seed, and their means with confidence intervals for its tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import log
from typing import Literal, NamedTuple

from evokernel.experiments.intervals import Grid, Interval, bootstrap_interval, build_grid, difference_interval, p_value, share_interval
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult

TaskMetric = Callable[[TaskResult], float | None]
"""Returns the metric's value for one result; None if the result has no value."""
ResultsBySeed = Mapping[int, Sequence[TaskResult]]
MIN_REPORTED_P = 0.001
"""Smaller p values are shown as `p < 0.001`."""


class Metric(NamedTuple):
    """A named metric and the format of its mean."""

    name: str
    value_of: TaskMetric
    unit: Literal["share", "ratio", "number"]

    def format_interval(self, interval: Interval | None) -> str:
        """Return a mean with its interval as text."""
        return FORMATTERS[self.unit](interval)

    def mean_interval(self, seeds: ResultsBySeed) -> Interval | None:
        """Return the mean over operators and seeds with its confidence interval."""
        return self.grid_interval(self.value_grid(seeds))

    def grid_interval(self, grid: Grid) -> Interval | None:
        """Return the mean of values with its confidence interval."""
        return (share_interval if self.unit == "share" else bootstrap_interval)(grid)

    def value_grid(self, seeds: ResultsBySeed) -> Grid:
        """Return the values of all operators and seeds."""
        return build_grid(seeds, self.value_of)

    def paired_difference(self, one: ResultsBySeed, other: ResultsBySeed) -> PairedDifference | None:
        """Return the mean difference paired by operator and seed; for ratios, of their logarithms."""
        first, second = self.value_grid(one), self.value_grid(other)
        interval = difference_interval(first, second)
        return None if interval is None else PairedDifference(interval, p_value(first - second))

    def format_difference(self, difference: PairedDifference | None) -> str:
        """`+10 points [3 to 17], p = 0.012`."""
        if difference is None:
            return formatting.UNKNOWN
        text = format_points(difference.interval) if self.unit == "share" else self.format_interval(difference.interval)
        return text + difference.p_text


class PairedDifference(NamedTuple):
    """The mean difference between two arms with its interval and p value."""

    interval: Interval
    p: float | None
    """None with fewer than two operators."""

    @property
    def p_text(self) -> str:
        """`, p = 0.012`; an empty text without a p value."""
        if self.p is None:
            return ""
        return f", p = {self.p:.3f}" if self.p >= MIN_REPORTED_P else f", p < {MIN_REPORTED_P}"


def format_share(interval: Interval | None) -> str:
    """`45 % [38 to 52]`."""
    return (
        formatting.UNKNOWN if interval is None else f"{100 * interval.mean:.0f} % [{100 * interval.low:.0f} to {100 * interval.high:.0f}]"
    )


def format_points(interval: Interval) -> str:
    """`+10 points [3 to 17]`: a difference of shares in percentage points. A bound close to 0 keeps a digit."""
    low, high = (f"{100 * end:z.0f}" if abs(end) >= 0.005 or not end else f"{100 * end:z.1g}" for end in (interval.low, interval.high))
    return f"{format_point_count(interval.mean)} [{low} to {high}]"


def format_point_count(difference: float) -> str:
    """`+10 points`, for a difference of shares."""
    number = f"{100 * difference:+z.0f}"
    return f"{number} point{'s' * (number not in ('+1', '-1'))}"


def format_ratio(interval: Interval | None) -> str:
    """`1.20× [1.05 to 1.41]`, from logarithms. A bound close to 1 keeps a third digit, so that it is not read as 1."""
    if interval is None:
        return formatting.UNKNOWN
    ratios = interval.exp()
    low, high = (format_bound(end) for end in (ratios.low, ratios.high))
    return f"{formatting.format_ratio(ratios.mean)} [{low} to {high}]"


def format_bound(ratio: float) -> str:
    """Return a bound of a ratio; one that differs from 1 is not written as 1.00."""
    return formatting.format_digits(ratio) if ratio == 1 or formatting.format_digits(ratio) != "1.00" else f"{ratio:.3f}"


def format_speed(interval: Interval) -> str:
    """`1.50× slower [1.05 to 2.10]`, or `1.25× slower [2.00× slower to 2.00× faster]`, from logarithms of speed-ups."""
    ratios = interval.exp()
    mean = describe_ratio(ratios.mean)
    if ratios.high < 1:
        return f"{mean} [{format_bound(1 / ratios.high)} to {format_bound(1 / ratios.low)}]"
    if ratios.low > 1:
        return f"{mean} [{format_bound(ratios.low)} to {format_bound(ratios.high)}]"
    return f"{mean} [{describe_ratio(ratios.low)} to {describe_ratio(ratios.high)}]"


def describe_ratio(speedup: float) -> str:
    """`1.83× faster`, `6.00× slower`, `equally fast`."""
    if speedup == 1:
        return "equally fast"
    return f"{format_bound(speedup)}× faster" if speedup > 1 else f"{format_bound(1 / speedup)}× slower"


def format_number(interval: Interval | None) -> str:
    """`4.12 [3.20 to 5.31]`."""
    return formatting.UNKNOWN if interval is None else f"{interval.mean:.2f} [{interval.low:.2f} to {interval.high:.2f}]"


FORMATTERS = {"share": format_share, "ratio": format_ratio, "number": format_number}


def compiled_within(rounds: int | None = None) -> TaskMetric:
    """CR: 1 if a candidate compiles within the first `rounds` attempts."""
    return lambda result: float(any(attempt.outcome.is_compiled for attempt in result.attempts[:rounds]))


def correct_within(rounds: int | None = None) -> TaskMetric:
    """Acc: 1 if a candidate passes the loop's verifier within the first `rounds` attempts."""
    return lambda result: float(any(attempt.outcome.feasible for attempt in result.attempts[:rounds]))


def passes_protocol(protocol: str) -> TaskMetric:
    """Acc under another protocol than the loop's: 1 if a kernel passes; None if a kernel that could pass was not evaluated."""

    def value_of(result: TaskResult) -> float | None:
        outcomes = [final.outcome for final in (*result.reevaluations.values(), *(result.other_protocol_results or {}).values())]
        if any(outcome.feasible and outcome.protocol == protocol for outcome in outcomes):
            return 1.0
        is_unevaluated = result.is_solved and not result.best_reevaluation  # an infrastructure failure prevented it
        return None if is_unevaluated or (protocol == "paper" and result.other_protocol_results is None) else 0.0

    return value_of


def exclude_vacuous(vacuous: Collection[str], metric: TaskMetric) -> TaskMetric:
    """Return the metric without values for vacuous operators."""
    return lambda result: None if result.task.id in vacuous or "vacuous" in result.task.tags else metric(result)


def attempts_to_first_correct(result: TaskResult) -> float:
    """Return the number of the first attempt that passed the loop's verifier, from 1; the number of attempts if none did."""
    numbers = (number for number, attempt in enumerate(result.attempts, start=1) if attempt.outcome.feasible)
    return float(next(numbers, len(result.attempts)))


def log_speedup_over(name: str) -> TaskMetric:
    """Speed-up of the best kernel over a baseline, as a logarithm."""

    def value_of(result: TaskResult) -> float | None:
        outcome = result.best_outcome
        base = outcome.baseline_latency_us(name) if outcome else None
        return log(base / outcome.latency_us) if outcome and base and outcome.latency_us else None

    return value_of


def is_faster_if_correct(name: str, p: float = 1.0) -> TaskMetric:
    """fast_p of correct operators: 1 if the best kernel is more than p times as fast as the baseline; None without a correct kernel."""
    return lambda result: None if (speedup := log_speedup_over(name)(result)) is None else float(speedup > log(p))


def is_faster_of_all(name: str, p: float = 1.0) -> TaskMetric:
    """fast_p of all operators: 0 for an operator without a correct kernel; None for a correct kernel not timed with this baseline."""

    def value_of(result: TaskResult) -> float | None:
        return is_faster_if_correct(name, p)(result) if result.is_solved else 0.0

    return value_of


def log_gain(result: TaskResult) -> float | None:
    """Gain from first correct to best kernel, as a logarithm; None for operators with a single correct kernel."""
    return log(result.gain) if result.gain and len(result.correct_attempts) > 1 else None


def log_roofline_share(result: TaskResult) -> float | None:
    """Share of the roofline that the best kernel reaches, as a logarithm."""
    outcome = result.best_outcome
    return log(result.floor_us / outcome.latency_us) if outcome and outcome.latency_us and result.floor_us else None
