"""What `learning.py` tells: shares and geometric means with intervals, arms against each other, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

import speed

from evokernel.core.records import Attempt, MemoryItem, Stage
from evokernel.experiments.arm_runs import Found
from evokernel.experiments.intervals import Interval, difference, grid, interval
from evokernel.experiments.metrics import attempts_spent as spent
from evokernel.experiments.metrics import number, ratio, share
from evokernel.reports import plots
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import Cell, Column, Table

ROUNDS = (1, 3, 10, 30)
SURE = "In brackets: 95 % confidence by bootstrap over operators and seeds."
PAIRED = "Operator by operator and seed by seed, only where both arms have a figure."
MOST_ITEMS = 12
Figure = Callable[[Tried], float | None]
Show = Callable[[Interval | None], str]


class Told:
    """Everything that is said about the runs of a study."""

    def __init__(
        self, found: Found, items: Mapping[str, MemoryItem], shown: Sequence[str], budget: int, pairs: Sequence[tuple[str, str]] = ()
    ) -> None:
        """`items` are the pack's, `shown` the words of notes that tell of learning, `pairs` warm arms with their cold ones."""
        self.found, self.items, self.shown, self.budget, self.pairs = found, items, shown, budget, pairs
        self.rounds = [rounds for rounds in ROUNDS if rounds <= budget] or [budget]
        first = next(iter(found.values()))
        self.seeds, self.operators = len(first), len(next(iter(first.values())))

    def drafting(self) -> tuple[list[Table], dict[str, Any]]:
        """How soon something is feasible."""
        given: dict[str, Figure] = {f"round {rounds}": within(rounds) for rounds in self.rounds}
        title = f"Share of {self.operators} operators feasible, {self.seeds} seeds"
        return self.both(title, {**given, "attempts": spent}, {"attempts": number})

    def refining(self) -> tuple[list[Table], dict[str, Any]]:
        """How far it gets."""
        names = speed.names(list(self.attempted()))
        logs = {f"best over {name}": logged(speed.over(name)) for name in names}
        given: dict[str, Figure] = {
            "feasible": within(self.budget),
            f"first over {names[0] if names else 'baseline'}": logged(speed.first_over_baseline),
            **logs,
            "first→best": logged(lambda tried: tried.gain),
            "of the floor": logged(speed.share_of_floor),
            **{f"faster than {name}": faster(name) for name in names},
        }
        ratios: dict[str, Show] = {name: ratio for name in given if name != "feasible" and not name.startswith("faster")}
        title = f"First correct to best, {self.operators} operators, {self.seeds} seeds"
        tables, figures = self.both(title, given, ratios)
        speeds = {arm: [tried for seed in seeds.values() for tried in seed] for arm, seeds in self.found.items()}
        tables += [speed.table(mine, f"Speed of the best kernels: {arm}") for arm, mine in speeds.items()]
        return tables, {**figures, "speed": {arm: speed.speeds(mine) for arm, mine in speeds.items()}}

    def both(self, title: str, given: Mapping[str, Figure], special: Mapping[str, Show]) -> tuple[list[Table], dict[str, Any]]:
        """Each arm, each pair of arms, and why; figures are shares where nothing else is said."""
        grids = {name: {arm: grid(seeds, figure) for arm, seeds in self.found.items()} for name, figure in given.items()}
        show: dict[str, Show] = {name: special.get(name, share) for name in given}
        columns = (Column("arm"), *(Column(name) for name in given))
        rows = [(arm, *(show[name](interval(grids[name][arm])) for name in given)) for arm in self.found]
        arms = Table(title, columns, tuple(rows), SURE)
        pairs = [(one, other) for at, one in enumerate(self.found) for other in list(self.found)[:at]]
        apart = [
            (f"{one} against {other}", *(show[name](difference(grids[name][one], grids[name][other])) for name in given))
            for one, other in pairs
        ]
        against = Table("Arms against each other", columns, tuple(apart), f"{PAIRED} {SURE} Shares and counts: less; ratios: over.")
        figures = {
            "arms": {arm: {name: told(interval(grids[name][arm])) for name in given} for arm in self.found},
            "pairs": {
                f"{one} - {other}": {name: told(difference(grids[name][one], grids[name][other])) for name in given} for one, other in pairs
            },
            "logarithms": [name for name in given if show[name] is ratio],
            "why": {arm: self.why(arm) for arm in self.found},
        }
        return [arms, *([against] if pairs else []), self.drafts(), self.sources(), *self.helpful(), *self.examples()], figures

    def attempted(self, arm: str = "") -> Iterator[Tried]:
        """Every operator under every seed, of one arm or of all."""
        for name, seeds in self.found.items():
            for tried in (tried for seed in seeds.values() for tried in seed):
                if arm in ("", name):
                    yield tried

    def why(self, arm: str) -> dict[str, Any]:
        """What drafts say of themselves, how they ended, and what was shown at first solves."""
        said: Counter[str] = Counter()
        passed: Counter[str] = Counter()
        at_first: Counter[str] = Counter()
        at_once: Counter[str] = Counter()
        sources: Counter[str] = Counter()
        helpful: Counter[str] = Counter()
        firsts = 0
        for tried in self.attempted(arm):
            for attempt in (a for a in tried.attempts if a.stage is Stage.DRAFT and a.candidate.files):
                kind = "from what was shown" if any(word in note(attempt) for word in self.shown) else "afresh"
                said[kind] += 1
                passed[kind] += attempt.outcome.feasible
                at_first[kind] += attempt is tried.attempts[0]
                at_once[kind] += attempt is tried.attempts[0] and attempt.outcome.feasible
            if tried.first:
                firsts += 1
                for ref in tried.first.shown_items:
                    sources[self.source(ref.id, tried)] += 1
                    helpful[ref.id] += ref.id in self.items and self.items[ref.id].task is not None
        return {
            "drafts": dict(said),
            "feasible": dict(passed),
            "first_solves": firsts,
            "first_drafts": dict(at_first),
            "feasible_at_once": dict(at_once),
            "shown_per_first_solve": {name: count / firsts for name, count in sorted(sources.items())} if firsts else {},
            "pack_items": [(id, count) for id, count in helpful.most_common(MOST_ITEMS) if count],
        }

    def source(self, id: str, tried: Tried) -> str:
        """Where a shown item comes from."""
        item = self.items.get(id)
        if item is not None and item.task is not None:
            return "pack, feasible" if item.feasible else "pack, failed"
        run, colon, attempt = id.partition(":")
        if not colon or item is not None or not tried.attempts or run != tried.attempts[0].run:
            return "cards"
        return "own task" if attempt.startswith(f"{tried.task.id}/") else "other tasks of the run"

    def drafts(self) -> Table:
        """Drafts that took decisions from what was shown, and those that did not."""
        rows: list[tuple[Cell, ...]] = []
        for arm in self.found:
            why = self.why(arm)
            for kind, count in sorted(why["drafts"].items(), reverse=True):
                total = sum(why["drafts"].values())
                first = why["first_drafts"][kind]
                at_once = why["feasible_at_once"][kind] / first if first else None
                rows.append((arm, kind, count, count / total, why["feasible"][kind] / count, first, at_once))
        columns = (
            Column("arm"),
            Column("decisions"),
            Column("drafts", "count"),
            Column("share", "share"),
            Column("feasible", "share"),
            Column("first drafts", "count"),
            Column("feasible at once", "share"),
        )
        note = "By what the generator notes with each kernel. Later drafts are for what was harder: first ones compare like with like."
        return Table("Why: what drafts go by", columns, tuple(rows), note)

    def sources(self) -> Table:
        """What was shown when an operator was first solved."""
        whys = {arm: self.why(arm) for arm in self.found}
        kinds = sorted({kind for why in whys.values() for kind in why["shown_per_first_solve"]})
        rows = tuple(
            (arm, why["first_solves"], *(f"{why['shown_per_first_solve'].get(kind, 0.0):.1f}" for kind in kinds))
            for arm, why in whys.items()
        )
        columns = (Column("arm"), Column("first solves", "count"), *(Column(kind) for kind in kinds))
        return Table("Why: items shown at first solves", columns, rows, "Per first solve, by where they come from.")

    def helpful(self) -> list[Table]:
        """The items of the pack that were there most often."""
        found = []
        for arm in self.found:
            if shown := self.why(arm)["pack_items"]:
                rows = tuple((self.items[id].title, self.items[id].kind, count) for id, count in shown)
                columns = (Column("item"), Column("kind"), Column("first solves", "count"))
                found.append(Table(f"Why: items of the pack most often shown at first solves, {arm}", columns, rows))
        return found

    def examples(self) -> list[Table]:
        """Where the warm start gained most attempts: what its first correct kernel went by, and which item of the pack was shown first."""
        found = []
        for warm, cold in self.pairs:
            gained: list[tuple[float, tuple[Cell, ...]]] = []
            for seed, mine in self.found[warm].items():
                for tried, other in zip(mine, self.found[cold].get(seed, []), strict=False):
                    if tried.first and spent(other) > spent(tried):
                        items = [
                            self.items[ref.id].title for ref in tried.first.shown_items if ref.id in self.items and self.items[ref.id].task
                        ]
                        cells = (tried.task.id, seed, int(spent(other)), int(spent(tried)), note(tried.first), (items or ["none"])[0])
                        gained.append((spent(other) - spent(tried), cells))
            rows = tuple(cells for _, cells in sorted(gained, key=lambda pair: -pair[0])[:MOST_ITEMS])
            names = ("operator", "seed", f"attempts, {cold}", f"attempts, {warm}", "the kernel was", "first item of the pack shown")
            if rows:
                found.append(Table(f"Why: where {warm} gained most", tuple(Column(name) for name in names), rows))
        return found

    def plot(self, folder: Path, name: str, is_draft: bool) -> None:
        """Over attempts: the share of operators with a feasible kernel, or with one faster than the baseline."""
        folder.mkdir(parents=True, exist_ok=True)
        figure = within if is_draft else beaten
        title = "Operators with a feasible kernel" if is_draft else "Operators with a kernel faster than the baseline"
        numbers = list(range(1, self.budget + 1))
        lines = {arm: [interval(grid(seeds, figure(at))) for at in numbers] for arm, seeds in self.found.items()}
        plots.save(folder, name, title, "", 5.6, 3.4, lambda _, axes: draw(axes, numbers, lines, title))


def draw(axes: Any, numbers: Sequence[int], lines: Mapping[str, Sequence[Interval | None]], title: str) -> bool:
    """A line and a band for each arm."""
    styles = (("-", "s"), ("--", "o"), (":", "^"), ("-.", "D"))
    colours = (plots.GREY, plots.ORANGE, plots.BLUE, plots.INK)
    for order, (arm, points) in enumerate(lines.items()):
        known = [(at, point) for at, point in zip(numbers, points) if point]
        rounds = [at for at, _ in known]
        line, mark = styles[order % len(styles)]
        colour = colours[order % len(colours)]
        axes.fill_between(
            rounds, [100 * point.low for _, point in known], [100 * point.high for _, point in known], color=colour, alpha=0.15, linewidth=0
        )
        means = [100 * point.mean for _, point in known]
        axes.plot(rounds, means, color=colour, linestyle=line, marker=mark, markersize=3.5, label=arm)
    axes.set_xscale("log")
    ticks = [at for at in ROUNDS if at <= numbers[-1]]
    axes.set_xticks(ticks, [str(at) for at in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel(f"{title[0].lower()}{title[1:]}, %")
    axes.legend(frameon=False, loc="best")
    return bool(lines)


def within(rounds: int) -> Figure:
    """1 where something is feasible within so many attempts."""
    return lambda tried: float(tried.first_round is not None and tried.first_round <= rounds)


def beaten(rounds: int) -> Figure:
    """1 where a kernel is faster than the baseline within so many attempts, as the loop timed it."""
    return lambda tried: float(any((attempt.outcome.speedup or 0.0) > 1 for number, attempt in tried.correct if number <= rounds))


def faster(name: str) -> Figure:
    """1 where the best kernel is faster than a baseline; no figure where either is not known."""
    figure = speed.over(name)
    return lambda tried: None if (found := figure(tried)) is None else float(found > 1)


def logged(figure: Figure) -> Figure:
    """The logarithm of a ratio, whose mean is that of a geometric mean."""
    return lambda tried: None if not (found := figure(tried)) else log(found)


def note(attempt: Attempt) -> str:
    """What the generator says it went by: the beginning of its notes."""
    return attempt.candidate.notes.partition(":")[0]


def told(found: Interval | None) -> dict[str, float] | None:
    """For programs."""
    return None if found is None else {**found._asdict()}
