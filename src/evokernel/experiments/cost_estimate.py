"""What an experiment will take: attempts counted, time and money by what earlier runs took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, Usage
from evokernel.core.run import Run
from evokernel.experiments.runner import Operators, specs
from evokernel.experiments.spec import Plan
from evokernel.reports import metrics

Kind = tuple[str, str, str]
"""Backend, generator, and the model where one is asked."""


LONGEST_GAPS, LONGEST_S = 10, 300.0
"""What passes between two attempts of a run that is at work, at most: so many times as much as usually, or so many seconds."""


class Rate(NamedTuple):
    """Of one kind of attempt, over all runs that were found."""

    attempts: int
    seconds: float | None
    """Wall time of an attempt among others, as the runs had it."""
    usage: Usage


class Row(NamedTuple):
    """One arm or pack, over all seeds."""

    name: str
    what: str
    operators: int
    attempts: int
    """At most, where attempts end with the first feasible kernel."""
    kind: Kind
    rate: Rate | None

    @property
    def seconds(self) -> float | None:
        return self.rate.seconds * self.attempts if self.rate and self.rate.seconds is not None else None

    @property
    def cost_usd(self) -> float | None:
        """0 where no model is called; None where nothing tells."""
        if not self.rate:
            return 0.0 if self.kind[1] in OFFLINE else None
        if not self.rate.usage.calls:
            return 0.0
        cost = self.rate.usage.cost_usd
        return None if cost is None else cost / self.rate.attempts * self.attempts


OFFLINE = ("sweep", "replay", "script")
"""Generators that ask no model."""


def expected(plan: Plan, given: Operators, earlier: Iterable[Path]) -> list[Row]:
    """A row for every pack and arm."""
    rates = known(earlier)
    rows = []
    for pack in plan.packs:
        rows.append(row(plan, pack.name, "memory pack", plan.config(pack.settings), specs(given, pack.groups), rates))
    for arm in plan.arms:
        if not arm.lacks():
            rows.append(row(plan, arm.name, "arm", plan.config(arm.settings), specs(given, plan.groups_of(arm)), rates))
    return rows


def row(plan: Plan, name: str, what: str, config: RunConfig, tasks: tuple[str, ...], rates: dict[Kind, Rate]) -> Row:
    kind = kind_of(config)
    return Row(name, what, len(tasks), plan.seeds * len(tasks) * config.budget, kind, rates.get(kind))


def kind_of(config: RunConfig) -> Kind:
    return config.plugin_name("backend"), config.plugin_name("generator"), str(config.plugin_settings("generator").get("model", ""))


def known(folders: Iterable[Path]) -> dict[Kind, Rate]:
    """What attempts took in the runs below these folders."""
    found: dict[Kind, Rate] = {}
    for run in runs(folders):
        attempts = run.attempts()
        seconds = worked_s(attempts)
        if not attempts or seconds is None:
            continue
        before = found.get(kind_of(run.config), Rate(0, 0.0, Usage()))
        total = (before.seconds or 0.0) * before.attempts + seconds
        count = before.attempts + len(attempts)
        found[kind_of(run.config)] = Rate(count, total / count, before.usage + metrics.usage(attempts))
    return found


def worked_s(attempts: Sequence[Attempt]) -> float | None:
    """Seconds between the first and the last finished attempt, without pauses; None when no clock was kept.

    A gap between one attempt and the next counts at most as ten times the median gap, or as five minutes where that is more: attempts of
    a round may end together, and then nothing ends until a model has answered.
    """
    times = sorted(attempt.finished_at for attempt in attempts if attempt.finished_at > 0)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if not gaps:
        return None
    most = max(LONGEST_GAPS * median(gaps), LONGEST_S)
    return sum(min(gap, most) for gap in gaps)


def runs(folders: Iterable[Path]) -> Iterator[Run]:
    """Those that can be read."""
    for folder in folders:
        for file in sorted(folder.glob("**/run.toml")) if folder.is_dir() else ():
            try:
                yield Run.open(file.parent)
            except UserError:  # another version's, or damaged: it tells nothing
                continue
