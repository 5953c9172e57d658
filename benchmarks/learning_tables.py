"""The tables of `learning.py`: shares and geometric means with intervals, comparisons of arms, and the reasons for differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log
from pathlib import Path
from typing import Any

import speed

from evokernel.core.labels import format_count
from evokernel.core.records import Attempt, MemoryItem, Stage
from evokernel.experiments.arm_runs import ResultsByArm
from evokernel.experiments.intervals import Interval, bootstrap_interval, build_grid, difference_interval
from evokernel.experiments.metrics import attempts_to_first_correct, format_number, format_ratio, format_share
from evokernel.reports import plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import Cell, Column, Table

ROUNDS = (1, 3, 10, 30)
INTERVAL_NOTE = "Brackets hold 95 % bootstrap intervals over operators and seeds."
PAIRING_NOTE = "Paired by operator and seed, only where both arms have a value."
MAX_ROWS = 12
Metric = Callable[[TaskResult], float | None]
Format = Callable[[Interval | None], str]


class LearningTables:
    """Builds all tables about the runs of a study."""

    def __init__(
        self,
        results: ResultsByArm,
        items: Mapping[str, MemoryItem],
        context_phrases: Sequence[str],
        budget: int,
        pairs: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`items` are those of the pack, `pairs` warm arms with their cold ones.

        `context_phrases` occur in notes about decisions that were taken from the context.
        """
        self.results, self.items, self.context_phrases, self.budget, self.pairs = results, items, context_phrases, budget, pairs
        self.rounds = [rounds for rounds in ROUNDS if rounds <= budget] or [budget]
        first = next(iter(results.values()))
        self.seeds, self.operators = len(first), len(next(iter(first.values())))

    def draft_tables(self) -> tuple[list[Table], dict[str, Any]]:
        """Return tables and figures about the attempts until an operator is feasible."""
        metrics_by_name: dict[str, Metric] = {f"by round {rounds}": is_feasible_within(rounds) for rounds in self.rounds}
        title = f"Share of feasible operators, {format_count(self.operators, 'operator')}, {format_count(self.seeds, 'seed')}"
        return self.compare_arms(title, {**metrics_by_name, "attempts": attempts_to_first_correct}, {"attempts": format_number})

    def refine_tables(self) -> tuple[list[Table], dict[str, Any]]:
        """Return tables and figures about the speed of the first correct and of the best kernels."""
        names = speed.baseline_names(list(self.iter_results()))
        logs = {f"best, relative to {name}": log_of(speed.speed_over(name)) for name in names}
        metrics_by_name: dict[str, Metric] = {
            "feasible": is_feasible_within(self.budget),
            f"first correct, relative to {names[0] if names else 'baseline'}": log_of(speed.first_over_baseline),
            **logs,
            "first → best": log_of(lambda result: result.gain),
            "share of the floor": log_of(speed.share_of_floor),
            **{f"faster than {name}": is_faster_than(name) for name in names},
        }
        ratios: dict[str, Format] = {name: format_ratio for name in metrics_by_name if name != "feasible" and not name.startswith("faster")}
        title = f"First correct kernel to best kernel, {format_count(self.operators, 'operator')}, {format_count(self.seeds, 'seed')}"
        tables, figures = self.compare_arms(title, metrics_by_name, ratios)
        speeds = {arm: [result for seed in seeds.values() for result in seed] for arm, seeds in self.results.items()}
        tables += [speed.speed_table(members, f"Speed of the best kernels: {arm}") for arm, members in speeds.items()]
        return tables, {**figures, "speed": {arm: speed.speed_rows(members) for arm, members in speeds.items()}}

    def compare_arms(
        self, title: str, metrics_by_name: Mapping[str, Metric], formats: Mapping[str, Format]
    ) -> tuple[list[Table], dict[str, Any]]:
        """Return the tables of all arms, of all pairs of arms and of reasons. Metrics are shares unless `formats` has another format."""
        grids = {name: {arm: build_grid(seeds, metric) for arm, seeds in self.results.items()} for name, metric in metrics_by_name.items()}
        format_cell: dict[str, Format] = {name: formats.get(name, format_share) for name in metrics_by_name}
        columns = (Column("arm"), *(Column(name) for name in metrics_by_name))
        rows = [(arm, *(format_cell[name](bootstrap_interval(grids[name][arm])) for name in metrics_by_name)) for arm in self.results]
        arms = Table(title, columns, tuple(rows), INTERVAL_NOTE)
        pairs = [(one, other) for index, one in enumerate(self.results) for other in list(self.results)[:index]]
        difference_rows = [
            (
                f"{one} compared with {other}",
                *(format_cell[name](difference_interval(grids[name][one], grids[name][other])) for name in metrics_by_name),
            )
            for one, other in pairs
        ]
        differences = Table(
            "Comparison of arms",
            columns,
            tuple(difference_rows),
            f"{PAIRING_NOTE} {INTERVAL_NOTE} Shares and counts are differences, speeds are ratios.",
        )
        figures = {
            "arms": {
                arm: {name: interval_to_json(bootstrap_interval(grids[name][arm])) for name in metrics_by_name} for arm in self.results
            },
            "pairs": {
                f"{one} - {other}": {
                    name: interval_to_json(difference_interval(grids[name][one], grids[name][other])) for name in metrics_by_name
                }
                for one, other in pairs
            },
            "logarithms": [name for name in metrics_by_name if format_cell[name] is format_ratio],
            "reasons": {arm: self.explain_arm(arm) for arm in self.results},
        }
        return [
            arms,
            *([differences] if pairs else []),
            self.decision_table(),
            self.source_table(),
            *self.pack_item_tables(),
            *self.example_tables(),
        ], figures

    def iter_results(self, arm: str = "") -> Iterator[TaskResult]:
        """Yield the result of every operator and seed, of one arm or of all."""
        for name, seeds in self.results.items():
            for result in (result for seed in seeds.values() for result in seed):
                if arm in ("", name):
                    yield result

    def explain_arm(self, arm: str) -> dict[str, Any]:
        """Count where the decisions of drafts come from, how the drafts ended, and the items in the contexts of first solves."""
        draft_counts: Counter[str] = Counter()
        feasible_counts: Counter[str] = Counter()
        first_draft_counts: Counter[str] = Counter()
        feasible_first_counts: Counter[str] = Counter()
        source_counts: Counter[str] = Counter()
        pack_item_counts: Counter[str] = Counter()
        solve_count = 0
        for result in self.iter_results(arm):
            for attempt in (a for a in result.attempts if a.stage is Stage.DRAFT and a.candidate.files):
                kind = "from the context" if any(word in note_phrase(attempt) for word in self.context_phrases) else "sampled"
                draft_counts[kind] += 1
                feasible_counts[kind] += attempt.outcome.feasible
                first_draft_counts[kind] += attempt is result.attempts[0]
                feasible_first_counts[kind] += attempt is result.attempts[0] and attempt.outcome.feasible
            if result.first_correct:
                solve_count += 1
                for ref in result.first_correct.shown_items:
                    source_counts[self.item_source(ref.id, result)] += 1
                    pack_item_counts[ref.id] += ref.id in self.items and self.items[ref.id].task is not None
        return {
            "drafts": dict(draft_counts),
            "feasible": dict(feasible_counts),
            "first_solves": solve_count,
            "first_drafts": dict(first_draft_counts),
            "feasible_at_once": dict(feasible_first_counts),
            "shown_per_first_solve": {name: count / solve_count for name, count in sorted(source_counts.items())} if solve_count else {},
            "pack_items": [(id, count) for id, count in pack_item_counts.most_common(MAX_ROWS) if count],
        }

    def item_source(self, id: str, result: TaskResult) -> str:
        """Return where an item of a context comes from."""
        item = self.items.get(id)
        if item is not None and item.task is not None:
            return "pack, feasible" if item.feasible else "pack, failed"
        run, colon, attempt = id.partition(":")
        if not colon or item is not None or not result.attempts or run != result.attempts[0].run:
            return "cards"
        return "own task" if attempt.startswith(f"{result.task.id}/") else "other tasks of the run"

    def decision_table(self) -> Table:
        """Return the table of drafts by the source of their decisions."""
        rows: list[tuple[Cell, ...]] = []
        for arm in self.results:
            reasons = self.explain_arm(arm)
            for kind, count in sorted(reasons["drafts"].items(), reverse=True):
                total = sum(reasons["drafts"].values())
                first = reasons["first_drafts"][kind]
                feasible_share = reasons["feasible_at_once"][kind] / first if first else None
                rows.append((arm, kind, count, count / total, reasons["feasible"][kind] / count, first, feasible_share))
        columns = (
            Column("arm"),
            Column("decisions"),
            Column("drafts", "count"),
            Column("share", "share"),
            Column("feasible", "share"),
            Column("first drafts", "count"),
            Column("feasible first drafts", "share"),
        )
        note = "From the generator's notes. Later drafts belong to harder operators, so only the first drafts of arms are comparable."
        return Table("Reasons: source of decisions", columns, tuple(rows), note)

    def source_table(self) -> Table:
        """Return the table of items in the contexts in which operators were first solved."""
        reasons_by_arm = {arm: self.explain_arm(arm) for arm in self.results}
        kinds = sorted({kind for reasons in reasons_by_arm.values() for kind in reasons["shown_per_first_solve"]})
        rows = tuple(
            (arm, reasons["first_solves"], *(f"{reasons['shown_per_first_solve'].get(kind, 0.0):.1f}" for kind in kinds))
            for arm, reasons in reasons_by_arm.items()
        )
        columns = (Column("arm"), Column("first solves", "count"), *(Column(kind) for kind in kinds))
        return Table("Reasons: items shown at first solves", columns, rows, "Items per first solve, by their source.")

    def pack_item_tables(self) -> list[Table]:
        """Return tables of the pack items that were most often in the context of a first solve."""
        tables = []
        for arm in self.results:
            if shown_counts := self.explain_arm(arm)["pack_items"]:
                rows = tuple((self.items[id].title, self.items[id].kind, count) for id, count in shown_counts)
                columns = (Column("item"), Column("kind"), Column("first solves", "count"))
                tables.append(Table(f"Reasons: pack items most often shown at first solves, {arm}", columns, rows))
        return tables

    def example_tables(self) -> list[Table]:
        """Return tables of the operators for which the warm start saved most attempts, with source and first pack item."""
        tables = []
        for warm, cold in self.pairs:
            examples: list[tuple[float, tuple[Cell, ...]]] = []
            for seed, members in self.results[warm].items():
                for result, cold_result in zip(members, self.results[cold].get(seed, []), strict=False):
                    if result.first_correct and attempts_to_first_correct(cold_result) > attempts_to_first_correct(result):
                        items = [
                            self.items[ref.id].title
                            for ref in result.first_correct.shown_items
                            if ref.id in self.items and self.items[ref.id].task
                        ]
                        cells = (
                            result.task.id,
                            seed,
                            int(attempts_to_first_correct(cold_result)),
                            int(attempts_to_first_correct(result)),
                            note_phrase(result.first_correct),
                            (items or ["none"])[0],
                        )
                        examples.append((attempts_to_first_correct(cold_result) - attempts_to_first_correct(result), cells))
            rows = tuple(cells for _, cells in sorted(examples, key=lambda pair: -pair[0])[:MAX_ROWS])
            names = ("operator", "seed", f"attempts, {cold}", f"attempts, {warm}", "source of decisions", "first pack item shown")
            if rows:
                tables.append(Table(f"Reasons: where {warm} saved most attempts", tuple(Column(name) for name in names), rows))
        return tables

    def plot(self, folder: Path, name: str, is_draft: bool) -> None:
        """Plot the share of operators with a feasible kernel, or with one faster than the baseline, over attempts."""
        folder.mkdir(parents=True, exist_ok=True)
        metric = is_feasible_within if is_draft else is_faster_within
        title = "Operators with a feasible kernel" if is_draft else "Operators with a kernel faster than the baseline"
        numbers = list(range(1, self.budget + 1))
        lines = {arm: [bootstrap_interval(build_grid(seeds, metric(number))) for number in numbers] for arm, seeds in self.results.items()}
        plots.save_plot(folder, name, title, "", 5.6, 3.4, lambda _, axes: draw_lines(axes, numbers, lines, title))


def draw_lines(axes: Any, numbers: Sequence[int], lines: Mapping[str, Sequence[Interval | None]], title: str) -> bool:
    """Draw a line and a band for each arm."""
    styles = (("-", "s"), ("--", "o"), (":", "^"), ("-.", "D"))
    colours = (plots.GREY, plots.ORANGE, plots.BLUE, plots.INK)
    for index, (arm, points) in enumerate(lines.items()):
        known_points = [(number, point) for number, point in zip(numbers, points) if point]
        rounds = [number for number, _ in known_points]
        line, mark = styles[index % len(styles)]
        colour = colours[index % len(colours)]
        axes.fill_between(
            rounds,
            [100 * point.low for _, point in known_points],
            [100 * point.high for _, point in known_points],
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
        means = [100 * point.mean for _, point in known_points]
        axes.plot(rounds, means, color=colour, linestyle=line, marker=mark, markersize=3.5, label=arm)
    axes.set_xscale("log")
    ticks = [number for number in ROUNDS if number <= numbers[-1]]
    axes.set_xticks(ticks, [str(number) for number in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 102)
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel(f"{title[0].lower()}{title[1:]}, %")
    axes.legend(frameon=False, loc="best")
    return bool(lines)


def is_feasible_within(rounds: int) -> Metric:
    """Return a metric: 1 if an operator is feasible within this number of attempts, else 0."""
    return lambda result: float(result.first_correct_round is not None and result.first_correct_round <= rounds)


def is_faster_within(rounds: int) -> Metric:
    """Return a metric: 1 if a kernel is faster than the baseline within this number of attempts, by the times of the loop, else 0."""
    return lambda result: float(
        any((attempt.outcome.speedup or 0.0) > 1 for number, attempt in result.correct_attempts if number <= rounds)
    )


def is_faster_than(name: str) -> Metric:
    """Return a metric: 1 if the best kernel is faster than a baseline, 0 if not, None if either time is unknown."""
    metric = speed.speed_over(name)
    return lambda result: None if (ratio := metric(result)) is None else float(ratio > 1)


def log_of(metric: Metric) -> Metric:
    """Return the logarithm of a metric, whose mean gives the geometric mean."""
    return lambda result: None if not (ratio := metric(result)) else log(ratio)


def note_phrase(attempt: Attempt) -> str:
    """Return the source of the decisions: the beginning of the generator's notes."""
    return attempt.candidate.notes.partition(":")[0]


def interval_to_json(interval: Interval | None) -> dict[str, float] | None:
    """Convert an interval for programs."""
    return None if interval is None else {**interval._asdict()}
