"""Compares runs side by side, paired by task: solved tasks, latency, attempts and cost, with confidence intervals over tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any, NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.core.run import Run
from evokernel.core.statistics import sum_if_known
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Metric, PairedDifference, attempts_to_first_correct, format_point_count, format_speed
from evokernel.reports import formatting, metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.run_state import RunState, run_state
from evokernel.reports.tables import Cell, Column, Table

MAX_RUNS = 8
SEED = 0
"""The one seed of a grid of results: a comparison has one run of each kind."""
MIN_INTERVAL_TASKS = 6
"""With fewer tasks a bootstrap interval is too narrow: even if all differences have one sign, chance explains them with p > 0.05."""
INTERVAL_NOTE = (
    f"In brackets: 95 % confidence interval, by bootstrap over tasks; fewer than {MIN_INTERVAL_TASKS} tasks are too few for an interval. "
    "It does not cover chance between runs with other seeds; 'evokernel experiment' repeats runs for that."
)


class ComparedRun(NamedTuple):
    """A run with its results."""

    name: str
    run: Run
    results: Sequence[TaskResult]
    state: RunState


class PairedRuns(NamedTuple):
    """A run compared with the first one, over the tasks that both have."""

    name: str
    task_count: int
    """Tasks that both runs have."""
    solved: PairedDifference | None
    """Difference of the shares of solved tasks."""
    speed: PairedDifference | None
    """Logarithm of the first run's best latency divided by this run's, over the tasks that both solved under the same clock."""
    first_correct: PairedDifference | None
    """Difference of the number of attempts until the first correct kernel."""
    cost_usd: float | None
    """Cost of this run minus cost of the first one, over all tasks; None if one of them is not reported."""


class RunComparison(NamedTuple):
    """Some runs, and each of them compared with the first."""

    runs: Sequence[ComparedRun]
    pairs: Sequence[PairedRuns]

    @property
    def tasks(self) -> list[str]:
        """All tasks of all runs, in the order of the first run that has them."""
        return list(dict.fromkeys(result.task.id for run in self.runs for result in run.results))


SOLVED = Metric("correct", lambda result: float(result.is_solved) if result.attempts else None, "share")
SPEED = Metric("best latency", lambda result: -log(us) if (us := best_latency(result)) else None, "ratio")
FIRST_CORRECT = Metric("attempts to the first correct kernel", attempts_to_first_correct, "number")
BASELINE_SPEED = Metric("speed", lambda result: log(result.speedup) if result.speedup else None, "ratio")


def best_latency(result: TaskResult) -> float | None:
    """Return the latency of the best kernel in microseconds."""
    return result.best_outcome.latency_us if result.best_outcome else None


def open_run(name: str, run: Run) -> ComparedRun:
    """Read the results of a run."""
    results = metrics.collect_results(run, run.attempts())
    return ComparedRun(name, run, results, run_state(run, results))


def compare_runs(runs: Sequence[ComparedRun]) -> RunComparison:
    """Compare every run with the first one. Raises UserError if there is nothing to compare."""
    if not 2 <= len(runs) <= MAX_RUNS:
        raise UserError(f"name 2 to {MAX_RUNS} runs to compare, not {len(runs)}.")
    folders = [one.run.folder.resolve() for one in runs]
    if repeated := next((one.name for one, folder in zip(runs, folders, strict=True) if folders.count(folder) > 1), None):
        raise UserError(f"{repeated} is named twice. Name different runs.")
    pairs = [pair_runs(runs[0], other) for other in runs[1:]]
    if lonely := next((pair.name for pair in pairs if not pair.task_count), None):
        raise UserError(f"{runs[0].name} and {lonely} have no task in common. Compare runs of the same suite.")
    return RunComparison(runs, pairs)


def pair_runs(first: ComparedRun, other: ComparedRun) -> PairedRuns:
    """Compare a run with the first one, over the tasks that both have."""
    own = {result.task.id: result for result in other.results}
    pairs = [(result, own[result.task.id]) for result in first.results if result.task.id in own]
    costs = [metrics.total_usage(a for result in one.results for a in result.attempts) for one in (first, other)]
    spent = [cost.cost_usd if cost.calls else 0.0 for cost in costs]
    return PairedRuns(
        other.name,
        len(pairs),
        paired_difference(SOLVED, pairs),
        paired_difference(SPEED, [pair for pair in pairs if are_comparable(*pair)]),
        paired_difference(FIRST_CORRECT, [pair for pair in pairs if all(one.attempts for one in pair)]),
        sum_if_known(spent[1], None if spent[0] is None else -spent[0]),
    )


def paired_difference(metric: Metric, pairs: Sequence[tuple[TaskResult, TaskResult]]) -> PairedDifference | None:
    """Return the mean over tasks of the second result's value minus the first one's; None without pairs."""
    if not pairs:
        return None
    first, second = ([pair[place] for pair in pairs] for place in (0, 1))
    return metric.paired_difference({SEED: second}, {SEED: first})


def are_comparable(first: TaskResult, second: TaskResult) -> bool:
    """Whether two best latencies are of the same task at the same size, by the same clock."""
    outcomes = [one.best_outcome for one in (first, second)]
    return timed_task(first.task) == timed_task(second.task) and len({one.clock for one in outcomes if one}) == 1 and all(outcomes)


def timed_task(task: Task) -> object:
    """What a latency depends on besides the kernel."""
    return task.signature, task.timed_size


def runs_table(comparison: RunComparison) -> Table:
    """One row per run: settings, solved tasks, speed relative to the baseline, attempts, cost."""
    columns = (
        Column("run"),
        Column("backend", drop_order=3),
        Column("generator", drop_order=2),
        Column("policy", drop_order=1),
        Column("state", drop_order=4),
        Column("correct", explanation="share of the tasks with attempts that have a correct kernel"),
        Column("speed", explanation="geometric mean over the solved tasks, relative to the baseline"),
        Column("attempts", "count"),
        Column("cost"),
        Column("time", drop_order=5, explanation="from the first to the last attempt"),
    )
    return Table("Runs", columns, tuple(run_cells(one) for one in comparison.runs), "In brackets: 95 % confidence interval over tasks.")


def run_cells(compared: ComparedRun) -> tuple[Cell, ...]:
    """Return the row of one run."""
    config, results = compared.run.config, compared.results
    attempts = [attempt for result in results for attempt in result.attempts]
    solved, speed = (metric.mean_interval({SEED: results}) if results else None for metric in (SOLVED, BASELINE_SPEED))
    baselines = metrics.baseline_names(results)
    suffix = f", baseline {formatting.baseline_label(baselines)}" if speed and baselines else ""
    return (
        compared.name,
        formatting.format_backend(config.plugin_name("backend"), compared.run.environment),
        config.plugin_name("generator"),
        config.plugin_name("policy"),
        compared.state.label,
        SOLVED.format_interval(solved),
        describe_speed(speed) + suffix,
        len(attempts),
        formatting.format_cost(metrics.total_usage(attempts)),
        formatting.format_duration(metrics.elapsed_s(attempts)),
    )


def pairs_table(comparison: RunComparison) -> Table:
    """One row per further run: its differences from the first one."""
    first = comparison.runs[0].name
    columns = (
        Column("run"),
        Column("common tasks", "count"),
        Column("correct", explanation="difference of the shares of solved tasks, in percentage points"),
        Column("best latency", explanation="geometric mean over the tasks that both solved, timed by the same clock"),
        Column("timed tasks", "count"),
        Column("first correct", explanation="difference of the number of attempts until the first correct kernel; all attempts if none is"),
        Column("cost"),
    )
    rows = tuple(
        (
            pair.name,
            pair.task_count,
            describe_difference(SOLVED, pair.solved),
            describe_speed(pair.speed.interval) + pair.speed.p_text if pair.speed else formatting.UNKNOWN,
            pair.speed.interval.value_count if pair.speed else 0,
            describe_difference(FIRST_CORRECT, pair.first_correct),
            format_cost_difference(pair.cost_usd),
        )
        for pair in comparison.pairs
    )
    return Table(f"Compared with {first}, paired by task", columns, rows, INTERVAL_NOTE)


def format_cost_difference(cost_usd: float | None) -> str:
    """`+0.1200 $`, `none`, `not reported`."""
    return "not reported" if cost_usd is None else f"{cost_usd:+.4f} $" if cost_usd else "none"


def describe_speed(interval: Interval | None) -> str:
    """`1.20× faster [1.05 to 1.41]`; `1.20× faster (2 tasks)` if they are too few for an interval."""
    if interval is None:
        return formatting.UNKNOWN
    if has_bounds(interval):
        return format_speed(interval)
    count = "one task" if interval.value_count == 1 else f"{interval.value_count} tasks"
    return f"{formatting.format_speed(exp(interval.mean))} ({count})"


def describe_difference(metric: Metric, difference: PairedDifference | None) -> str:
    """`+10 points [3 to 17], p = 0.012`; without bounds if there are too few tasks for an interval."""
    if difference is None or has_bounds(difference.interval):
        return metric.format_difference(difference)
    mean = difference.interval.mean
    return (format_point_count(mean) if metric.unit == "share" else f"{mean:.2f}") + difference.p_text


def has_bounds(interval: Interval) -> bool:
    """Whether there are enough tasks for the bounds of an interval."""
    return interval.value_count >= MIN_INTERVAL_TASKS


def tasks_table(comparison: RunComparison) -> Table:
    """One row per task: the best latency and the attempts of each run, and the ratio to the first run."""
    several = len(comparison.runs) > 2
    columns = [Column("task")]
    for number, one in enumerate(comparison.runs):
        columns += [Column(one.name), Column("attempts", "count", drop_order=2)]
        if number:
            columns.append(Column(f"{one.name} is" if several else "difference"))
    rows = [tuple(task_cells(comparison, task)) for task in comparison.tasks]
    note = "Best latency of each task. A dash marks a task that the run does not have, or latencies that cannot be compared."
    return Table("Tasks", tuple(columns), tuple(rows), note)


def task_cells(comparison: RunComparison, task: str) -> list[Cell]:
    """Return the row of one task."""
    cells: list[Cell] = [task]
    results = [next((result for result in one.results if result.task.id == task), None) for one in comparison.runs]
    for number, result in enumerate(results):
        cells += [describe_result(result), len(result.attempts) if result else None]
        if number:
            cells.append(formatting.format_speed(latency_ratio(results[0], result)))
    return cells


def describe_result(result: TaskResult | None) -> str:
    """`412 µs`, `not solved`, `not tried`; a dash if the run does not have the task."""
    if result is None:
        return formatting.UNKNOWN
    return formatting.format_latency(best_latency(result)) if result.is_solved else "not solved" if result.attempts else "not tried"


def latency_ratio(first: TaskResult | None, other: TaskResult | None) -> float | None:
    """Return the first latency divided by the other; None if they cannot be compared."""
    if not first or not other or not are_comparable(first, other):
        return None
    before, after = best_latency(first), best_latency(other)
    return before / after if before and after else None


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Return the object that `compare --json` prints. A figure that is unknown is null, never 0."""
    return {
        "runs": [run_json(one) for one in comparison.runs],
        "compared_with_first": [pair_json(pair) for pair in comparison.pairs],
        "tasks": [task_json(comparison, task) for task in comparison.tasks],
        "interval": {"confidence": 0.95, "resampled": "tasks"},
    }


def run_json(compared: ComparedRun) -> dict[str, Any]:
    """Return one run's part of the object."""
    config, results = compared.run.config, compared.results
    attempts = [attempt for result in results for attempt in result.attempts]
    usage = metrics.total_usage(attempts)
    return {
        "run": compared.name,
        "id": config.id,
        **{part: config.plugin_name(part) for part in ("backend", "generator", "policy")},
        "state": compared.state.name,
        "tasks": len(results),
        "solved": metrics.count_correct(results),
        "solved_share": interval_json(SOLVED.mean_interval({SEED: results}) if results else None),
        "geomean_speedup": interval_json(exponentiate(BASELINE_SPEED.mean_interval({SEED: results}) if results else None)),
        "attempts": len(attempts),
        "cost_usd": usage.cost_usd if usage.calls else 0.0,
        "seconds": metrics.elapsed_s(attempts),
    }


def pair_json(pair: PairedRuns) -> dict[str, Any]:
    """Return the part of the object that compares a run with the first one."""
    return {
        "run": pair.name,
        "common_tasks": pair.task_count,
        "solved_share_difference": difference_json(pair.solved),
        "latency_ratio": difference_json(pair.speed, is_logarithm=True),
        "first_correct_difference": difference_json(pair.first_correct),
        "cost_usd_difference": pair.cost_usd,
    }


def task_json(comparison: RunComparison, task: str) -> dict[str, Any]:
    """Return one task's part of the object."""
    results = {one.name: next((result for result in one.results if result.task.id == task), None) for one in comparison.runs}
    first = results[comparison.runs[0].name]
    return {
        "task": task,
        "runs": {
            name: {
                "solved": result.is_solved,
                "best_us": best_latency(result),
                "attempts": len(result.attempts),
                "latency_ratio": latency_ratio(first, result),
            }
            if result
            else None
            for name, result in results.items()
        },
    }


def exponentiate(interval: Interval | None) -> Interval | None:
    """Return the interval of ratios if there is one of their logarithms."""
    return interval.exp() if interval else None


def interval_json(interval: Interval | None) -> Mapping[str, float] | None:
    """Return an interval as JSON; bounds only if there are enough tasks for them."""
    if interval is None:
        return None
    bounds = {"low": interval.low, "high": interval.high} if has_bounds(interval) else {}
    return {"mean": interval.mean, **bounds, "tasks": interval.value_count}


def difference_json(difference: PairedDifference | None, is_logarithm: bool = False) -> Mapping[str, float | None] | None:
    """Return a paired difference as JSON."""
    if difference is None:
        return None
    return {**(interval_json(difference.interval.exp() if is_logarithm else difference.interval) or {}), "p": difference.p}
