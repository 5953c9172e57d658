"""Tables of an experiment that say how fast kernels are: over every baseline, over the first correct one, and of what the device allows."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Any, NamedTuple

from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Figure, Measure, Seeds, faster, faster_of_all, gain, of_the_floor, over, ratio, share
from evokernel.experiments.results import Results, baselines, every
from evokernel.experiments.success_tables import counts
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import FAST_P, Spread
from evokernel.reports.tables import Column, Table

FIRST, FLOOR = "its first correct kernel", "the roofline"


class Speed(NamedTuple):
    """The best kernels of an arm against one thing."""

    arm: str
    over: str
    geomean: Interval
    spread: Spread
    is_share: bool

    def row(self) -> tuple[str, ...]:
        show, means = small_share if self.is_share else formatting.ratio, self.geomean.exp()
        mean = f"{show(means.mean)} [{show(means.low)} to {show(means.high)}]" if self.is_share else ratio(self.geomean)
        half = f"{show(self.spread.low)} to {show(self.spread.high)}"
        return self.arm, self.over, mean, show(self.spread.median), half, str(self.geomean.figures)

    def plain(self) -> dict[str, Any]:
        return {"geomean": self.geomean.exp()._asdict(), "median": self.spread.median, "quartiles": [self.spread.low, self.spread.high]}


def small_share(value: float) -> str:
    """`34 %`, `0.021 %`: two digits, however little it is."""
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.2g} %"


def speeds(results: Results, group: str) -> Iterator[Speed]:
    """Over every baseline, the first correct kernel and the roofline, as far as there are figures."""
    for arm, seeds in results.arms(group).items():
        against: dict[str, Figure] = {formatting.baseline_label([name]): over(name) for name in baselines(results.attempts[arm])}
        for name, figure in {**against, FIRST: gain, FLOOR: of_the_floor}.items():
            if found := speed(arm, name, figure, seeds):
                yield found


def speed(arm: str, name: str, figure: Figure, seeds: Seeds) -> Speed | None:
    values = [exp(value) for tried in every(seeds) if (value := figure(tried)) is not None]
    geomean, spread = Measure("", figure, "ratio").of(seeds), metrics.spread(values)
    return Speed(arm, name, geomean, spread, name == FLOOR) if geomean and spread else None


def table(results: Results, group: str) -> Table | None:
    rows = tuple(found.row() for found in speeds(results, group))
    columns = (
        Column("arm"),
        Column("best kernels over"),
        Column("geometric mean"),
        Column("median"),
        Column("middle half"),
        Column("kernels", means="with a figure, over all seeds"),
    )
    again = f" Bests as judged again ({results.again})." if results.again else ""
    roofline = f" Of {FLOOR}: the share of what the device's ceilings allow." if any(row[1] == FLOOR for row in rows) else ""
    further = f" Over {FIRST}: where there is a further one." if any(row[1] == FIRST for row in rows) else ""
    note = f"Times: {clock(results)}.{again}{further}{roofline}"
    return Table(f"{group}: speed of the best kernels", columns, rows, note) if rows else None


def clock(results: Results) -> str:
    return formatting.clock_label(metrics.clocks(attempt for attempts in results.attempts.values() for attempt in attempts))


Fast = dict[str, dict[str, Interval | None]]
"""Of all operators, and of the correct ones: shares by p."""


def fast(results: Results, arm: str, name: str, seeds: Seeds) -> Fast:
    """fast_p of an arm over one baseline."""
    return {
        "all": {f"{p:g}": Measure("", faster_of_all(name, p), "share").of(seeds) for p in FAST_P},
        "correct": {f"{p:g}": Measure("", faster(name, p), "share").of(seeds) for p in FAST_P},
    }


def fast_table(results: Results, group: str) -> Table | None:
    rows = []
    for arm, seeds in results.arms(group).items():
        for name in baselines(results.attempts[arm]):
            for of, shares in fast(results, arm, name, seeds).items():
                rows.append((arm, formatting.baseline_label([name]), of, *map(share, shares.values())))
    columns = (Column("arm"), Column("p times as fast as"), Column("of"), *(Column(f"> {p:g}×") for p in FAST_P))
    note = f"{counts(results, group)}; all: of all operators; correct: of those with a correct kernel."
    return Table(f"{group}: fast_p", columns, tuple(rows), note) if rows else None
