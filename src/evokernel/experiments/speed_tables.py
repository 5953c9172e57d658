"""Builds the tables of speed: compared with every baseline, with the first correct kernel, and with the roofline."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Any, NamedTuple

from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import (
    Metric,
    ResultsBySeed,
    TaskMetric,
    format_ratio,
    format_share,
    is_faster_if_correct,
    is_faster_of_all,
    log_gain,
    log_roofline_share,
    log_speedup_over,
)
from evokernel.experiments.results import Results, baseline_names, flatten_seeds
from evokernel.experiments.success_tables import count_phrase
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import FAST_P, Quartiles
from evokernel.reports.tables import Column, Table

FIRST_CORRECT, ROOFLINE = "its first correct kernel", "the roofline"


class ArmSpeed(NamedTuple):
    """Speed of an arm's best kernels compared with one baseline."""

    arm: str
    baseline: str
    geomean: Interval
    """Of logarithms."""
    quartiles: Quartiles
    is_share: bool
    """Whether it is the share of the roofline."""

    def table_row(self) -> tuple[str, ...]:
        """Return the cells of `speed_table`."""
        format_value, means = format_small_share if self.is_share else formatting.format_ratio, self.geomean.exp()
        if self.is_share:
            mean = f"{format_value(means.mean)} [{format_value(means.low)} to {format_value(means.high)}]"
        else:
            mean = format_ratio(self.geomean)
        half = f"{format_value(self.quartiles.low)} to {format_value(self.quartiles.high)}"
        return self.arm, self.baseline, mean, format_value(self.quartiles.median), half, str(self.geomean.value_count)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "geomean": self.geomean.exp()._asdict(),
            "median": self.quartiles.median,
            "quartiles": [self.quartiles.low, self.quartiles.high],
        }


def format_small_share(value: float) -> str:
    """`34 %`, `0.021 %`: two significant digits."""
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.2g} %"


def iterate_speeds(results: Results, group: str) -> Iterator[ArmSpeed]:
    """Yield every arm's speed compared with each baseline, the first correct kernel and the roofline, if known."""
    for arm, seeds in results.arm_results(group).items():
        baselines: dict[str, TaskMetric] = {
            formatting.baseline_label([name]): log_speedup_over(name) for name in baseline_names(results.attempts[arm])
        }
        for name, metric in {**baselines, FIRST_CORRECT: log_gain, ROOFLINE: log_roofline_share}.items():
            if speed := compute_speed(arm, name, metric, seeds):
                yield speed


def compute_speed(arm: str, name: str, metric: TaskMetric, seeds: ResultsBySeed) -> ArmSpeed | None:
    """Compute an arm's speed compared with one baseline; None without values."""
    values = [exp(value) for result in flatten_seeds(seeds) if (value := metric(result)) is not None]
    geomean, quartiles = Metric("", metric, "ratio").mean_interval(seeds), metrics.quartiles(values)
    return ArmSpeed(arm, name, geomean, quartiles, name == ROOFLINE) if geomean and quartiles else None


def speed_table(results: Results, group: str) -> Table | None:
    """Return the speed of each arm's best kernels."""
    rows = tuple(speed.table_row() for speed in iterate_speeds(results, group))
    columns = (
        Column("arm"),
        Column("compared with"),
        Column("speed-up, geometric mean"),
        Column("speed-up, median"),
        Column("speed-up, middle half"),
        Column("kernels", explanation="number of best kernels with a value, over all seeds"),
    )
    reevaluation = f" Outcomes of the re-evaluation ({results.final_protocol})." if results.final_protocol else ""
    roofline = (
        f" Compared with {ROOFLINE}: share of the speed that the device's peak rates allow."
        if any(row[1] == ROOFLINE for row in rows)
        else ""
    )
    further = (
        f" Compared with {FIRST_CORRECT}: operators with several correct kernels." if any(row[1] == FIRST_CORRECT for row in rows) else ""
    )
    note = f"Times: {clock_text(results)}. Above 1× the best kernels are faster.{reevaluation}{further}{roofline}"
    return Table(f"{group}: speed of the best kernels", columns, rows, note) if rows else None


def clock_text(results: Results) -> str:
    """Return the clocks of all attempts."""
    return formatting.clock_label(metrics.clock_names(attempt for attempts in results.attempts.values() for attempt in attempts))


FastShares = dict[str, dict[str, Interval | None]]
"""`all` operators and `correct` ones: shares by p."""


def fast_p_shares(baseline: str, seeds: ResultsBySeed) -> FastShares:
    """Return fast_p of an arm over one baseline."""
    return {
        "all": {f"{p:g}": Metric("", is_faster_of_all(baseline, p), "share").mean_interval(seeds) for p in FAST_P},
        "correct": {f"{p:g}": Metric("", is_faster_if_correct(baseline, p), "share").mean_interval(seeds) for p in FAST_P},
    }


def fast_p_table(results: Results, group: str) -> Table | None:
    """Return fast_p of each arm over each baseline."""
    rows = []
    for arm, seeds in results.arm_results(group).items():
        for name in baseline_names(results.attempts[arm]):
            for base, shares in fast_p_shares(name, seeds).items():
                rows.append((arm, formatting.baseline_label([name]), base, *map(format_share, shares.values())))
    columns = (Column("arm"), Column("baseline"), Column("operators"), *(Column(f"> {p:g}×") for p in FAST_P))
    note = (
        f"fast_p: share of operators whose best kernel is more than p times as fast as the baseline. {count_phrase(results, group)}; "
        "all: of all operators; correct: of operators with a correct kernel."
    )
    return Table(f"{group}: fast_p", columns, tuple(rows), note) if rows else None
