"""What an experiment found, as tables, plots and figures for programs: every mean with its interval, arms against each other in pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.core.run import Run
from evokernel.experiments.arms import Found
from evokernel.experiments.intervals import Interval, chance
from evokernel.experiments.lab import Operators
from evokernel.experiments.layouts import LAYOUTS
from evokernel.experiments.measures import Measure, attempts_spent, feasible, rates, speeds
from evokernel.experiments.plans import Plan
from evokernel.reports import metrics, plots, words
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Column, Table

SURE = "In brackets: 95 % confidence, by a bootstrap over operators and seeds, each drawn on its own."
PAIRED = "Operator by operator and seed by seed. p: how often chance alone would give so much, by changing signs of operators' differences."
STYLES = (("-", "s"), ("--", "o"), (":", "^"), ("-.", "D"))
COLOURS = (plots.BLUE, plots.ORANGE, plots.GREY, plots.INK)


class Told:
    """Everything that is said of the runs of an experiment."""

    def __init__(self, plan: Plan, found: Found, given: Operators) -> None:
        self.plan, self.found = plan, found
        self.groups = {name: {task.id for task in given[name]} for name in plan.told or plan.groups}
        self.attempts = {arm: [a for tried in every(seeds) for a in tried.attempts] for arm, seeds in found.items()}

    def of(self, arm: str, group: str) -> dict[int, list[Tried]]:
        """An arm's operators of a group, by seed."""
        ids = self.groups[group]
        return {seed: [tried for tried in tries if tried.task.id in ids] for seed, tries in self.found[arm].items()}

    def arms(self, group: str) -> dict[str, dict[int, list[Tried]]]:
        """Those that were tried on a group."""
        found = {arm: self.of(arm, group) for arm in self.found}
        return {arm: seeds for arm, seeds in found.items() if any(seeds.values())}

    def tables(self) -> list[Table]:
        found = [table for group in self.groups for table in (self.rates(group), self.speeds(group), self.pairs(group)) if table]
        special = LAYOUTS[self.plan.kind].tables(self.first()) if self.plan.kind in LAYOUTS else []
        return [*found, *special, self.spent(), *self.published()]

    def first(self) -> dict[str, list[Tried]]:
        """Every arm's operators that are told of, under the first seed: a timeline is that of one run."""
        ids = set().union(*self.groups.values())
        return {arm: [tried for tried in seeds[min(seeds)] if tried.task.id in ids] for arm, seeds in self.found.items() if seeds}

    def rates(self, group: str) -> Table:
        return self.measured(f"{group}: compiled and correct", group, rates(self.plan.again is not None))

    def speeds(self, group: str) -> Table | None:
        names = sorted({name for attempts in self.attempts.values() for attempt in attempts for name in attempt.outcome.baseline_us})
        found = self.measured(f"{group}: speed of the best kernels", group, speeds(names))
        return found if any(cell != words.UNKNOWN for row in found.rows for cell in row[1:]) else None

    def measured(self, title: str, group: str, measures: Sequence[Measure]) -> Table:
        arms = self.arms(group)
        columns = (Column("arm"), *(Column(measure.name, means=measure.means) for measure in measures))
        rows = tuple((arm, *(measure.show(measure.of(seeds)) for measure in measures)) for arm, seeds in arms.items())
        count = max((len(tries) for seeds in arms.values() for tries in seeds.values()), default=0)
        return Table(title, columns, rows, f"{count} operators, {self.plan.seeds} seed{'s' * (self.plan.seeds != 1)}. {SURE}")

    def compared(self) -> list[Measure]:
        return [
            Measure("Acc, round 1", feasible(1), "share"),
            Measure("Acc", feasible(), "share"),
            Measure("attempts to the first feasible", attempts_spent, "number"),
        ]

    def pairs(self, group: str) -> Table | None:
        arms = self.arms(group)
        rows = []
        for one, other in self.plan.against:
            if one in arms and other in arms:
                cells = [self.against(measure, arms[one], arms[other]) for measure in self.compared()]
                rows.append((f"{one} less {other}", *cells))
        columns = (Column("arms"), *(Column(measure.name) for measure in self.compared()))
        return Table(f"{group}: arms against each other", columns, tuple(rows), f"{PAIRED} {SURE}") if rows else None

    @staticmethod
    def against(measure: Measure, one: dict[int, list[Tried]], other: dict[int, list[Tried]]) -> str:
        found = measure.apart(one, other)
        p = chance(measure.grid(one) - measure.grid(other))
        return measure.show(found) + ("" if p is None else f", p = {p:.3f}")

    def spent(self) -> Table:
        """Attempts, tokens and money of every arm."""
        rows = []
        for arm, attempts in self.attempts.items():
            usage = metrics.usage(attempts)
            correct = sum(tried.solved for tried in every(self.found[arm]))
            per = usage.cost_usd / correct if usage.calls and usage.cost_usd is not None and correct else None
            tokens = None if not usage.calls else usage.tokens_out
            rows.append((arm, len(attempts), tokens, words.cost(usage), None if per is None else f"${per:.4f}"))
        columns = (
            Column("arm"),
            Column("attempts", "count"),
            Column("tokens written", "count"),
            Column("cost"),
            Column("per correct kernel"),
        )
        return Table("What it took", columns, tuple(rows), "All seeds together; memory packs are not counted.")

    def published(self) -> list[Table]:
        """Beside it, what was published."""
        paper = self.plan.paper
        if not paper.get("rows"):
            return []
        columns = tuple(Column(str(name)) for name in paper["columns"])
        return [Table("As published", columns, tuple(tuple(map(str, row)) for row in paper["rows"]), str(paper.get("note", "")))]

    def plots(self, folder: Path) -> list[plots.Plot]:
        """Over attempts, the share of operators with a feasible kernel; then what this kind of experiment draws."""
        made = []
        for group in self.groups:
            arms = self.arms(group)
            longest = max((len(tried.attempts) for seeds in arms.values() for tried in every(seeds)), default=0)
            points = {arm: [Measure("", feasible(at), "share").of(seeds) for at in range(1, longest + 1)] for arm, seeds in arms.items()}
            title = f"Operators with a feasible kernel: {group}"
            made.append(plots.save(folder, f"curve-{group}", title, SURE, 5.6, 3.4, drawing(points)))
        made += LAYOUTS[self.plan.kind].drawings(self.first(), folder) if self.plan.kind in LAYOUTS else []
        return [plot for plot in made if plot]

    def figures(self) -> dict[str, Any]:
        """For programs."""
        groups: dict[str, Any] = {}
        for group in self.groups:
            arms = self.arms(group)
            pairs = [pair for pair in self.plan.against if set(pair) <= set(arms)]
            groups[group] = {
                "arms": {arm: {m.name: plain(m.of(seeds)) for m in rates(self.plan.again is not None)} for arm, seeds in arms.items()},
                "pairs": {
                    f"{one} - {other}": {
                        m.name: {"interval": plain(m.apart(arms[one], arms[other])), "p": chance(m.grid(arms[one]) - m.grid(arms[other]))}
                        for m in self.compared()
                    }
                    for one, other in pairs
                },
            }
        return {"plan": self.plan.model_dump(mode="json"), "groups": groups, "skipped": self.skipped()}

    def skipped(self) -> dict[str, str]:
        """Arms that were left out, and why."""
        return {arm.name: f"{arm.needs} is not set" for arm in self.plan.arms if arm.lacks()}


def every(seeds: Mapping[int, Sequence[Tried]]) -> list[Tried]:
    return [tried for tries in seeds.values() for tried in tries]


def plain(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()


def drawing(points: Mapping[str, Sequence[Interval | None]]) -> plots.Draw:
    return lambda _, axes: draw(axes, points)


def draw(axes: Any, points: Mapping[str, Sequence[Interval | None]]) -> bool:
    """A line and a band for each arm; lines differ in shape, too."""
    for order, (arm, found) in enumerate(points.items()):
        known = [(at, point) for at, point in enumerate(found, start=1) if point]
        rounds, (line, mark), colour = [at for at, _ in known], STYLES[order % len(STYLES)], COLOURS[order % len(COLOURS)]
        lows, highs = ([100 * getattr(point, side) for _, point in known] for side in ("low", "high"))
        axes.fill_between(rounds, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.plot(rounds, [100 * point.mean for _, point in known], color=colour, linestyle=line, marker=mark, markersize=3, label=arm)
    axes.set_ylim(0, 102)
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel("operators with a feasible kernel, %")
    plots.whole_ticks(axes.xaxis)
    axes.legend(frameon=False, loc="lower right")
    return any(found for found in points.values())


def markdown(table: Table) -> str:
    """A table with its title and what is to be said of it."""
    lines = [f"## {table.title}", ""] if table.title else []
    lines += ["| " + " | ".join(column.name for column in table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.shown()]
    return "\n".join([*lines, "", *([table.caption, ""] if table.caption else [])])


def write(told: Told, folder: Path) -> list[Table]:
    """`experiment.md`, `experiment.json` and the plots."""
    tables = told.tables()
    drawn = told.plots(folder)
    head = [f"# {told.plan.title}", "", told.plan.about, "", *versions(folder)]
    head += [f"Left out: {name} ({why})." for name, why in told.skipped().items()]
    images = [f"![{plot.title}]({plot.name}.svg)\n" for plot in drawn]
    (folder / "experiment.md").write_text("\n".join([*head, "", *images, *map(markdown, tables)]))
    (folder / "experiment.json").write_text(json.dumps(told.figures(), indent=1) + "\n")
    return tables


def versions(folder: Path) -> list[str]:
    """What the runs were made with and on; several lines where they differ."""
    found = set()
    for file in sorted(folder.glob("*/run.toml")):
        facts = Run.open(file.parent).facts
        found.add(", ".join(f"{name} {value}" for part in ("versions", "hardware") for name, value in sorted(facts.get(part, {}).items())))
    return [f"Made with: {line}." for line in sorted(found)]
