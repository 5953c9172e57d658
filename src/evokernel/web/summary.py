"""Summary of a run: its row in the list, and its curves for the comparison chart."""

from __future__ import annotations

from dataclasses import dataclass, field

from evokernel.core.run import Run
from evokernel.reports import formatting, metrics, round_stats
from evokernel.reports.metrics import TaskResult
from evokernel.reports.run_state import RunState, describe_state
from evokernel.web.run_tail import RunTail

MEASURES = {"correct": "tasks correct, %", "compiled": "tasks compiled, %", "reward": "mean reward", "spent": "cost"}
"""Measures that runs can be compared by."""
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class RunRow:
    """The summary of a run, which stays in memory after its attempts are released."""

    key: str
    id: str = ""
    backend: str = ""
    generator: str = ""
    model: str = ""
    policy: str = ""
    suite: str = ""
    tasks: int = 0
    attempts: int = 0
    planned_attempts: int = 0
    compiled_share: float | None = None
    correct_share: float | None = None
    geomean_speedup: float | None = None
    best_task: tuple[str, float] | None = None
    """The task with the largest speed-up, and that speed-up."""
    baseline: str = ""
    clock: str = ""
    cost: str = ""
    seconds: float | None = None
    last_attempt_at: float | None = None
    """When the last attempt finished, in seconds since the epoch."""
    state: RunState = RunState("damaged", "damaged")
    problems: tuple[str, ...] = ()
    curves: dict[str, Points] = field(default_factory=dict)
    """For each measure, its value after N attempts per task."""
    cost_unit: str = ""


def summarize_run(run_tail: RunTail) -> RunRow:
    """The summary of a run, cached until the run changes."""
    return run_tail.compute_once("row", lambda: build_row(run_tail))


def build_row(run_tail: RunTail) -> RunRow:
    """Compute the summary of a run."""
    run = run_tail.run
    if run is None:
        return RunRow(run_tail.key, problems=tuple(run_tail.problems))
    results, attempts = run_tail.results, run_tail.attempts
    usage, config = metrics.total_usage(attempts), run.config
    fastest_task = max(((result.task.id, result.speedup) for result in results if result.speedup), key=lambda pair: pair[1], default=None)
    count = len(results)
    is_complete = not any(config.remaining_attempts(result.attempts) for result in results)
    return RunRow(
        run_tail.key,
        id=config.id,
        backend=formatting.format_backend(config.plugin_name("backend"), run.environment),
        generator=config.plugin_name("generator"),
        model=usage.model or str(config.generator.get("model") or ""),
        policy=config.plugin_name("policy"),
        suite=config.tasks,
        tasks=count,
        attempts=len(attempts),
        planned_attempts=count_planned_attempts(run, results),
        compiled_share=metrics.count_compiled(results) / count if attempts else None,
        correct_share=metrics.count_correct(results) / count if attempts else None,
        geomean_speedup=metrics.geometric_mean(metrics.list_speedups(results)),
        best_task=fastest_task,
        baseline=formatting.baseline_label(metrics.baseline_names(results)) if metrics.baseline_names(results) else "",
        clock=formatting.clock_label(metrics.clock_names(attempts)),
        cost=formatting.format_cost(usage),
        seconds=metrics.elapsed_s(attempts),
        last_attempt_at=max((attempt.finished_at for attempt in attempts), default=0.0) or None,
        state=describe_state(results, is_complete, run_tail.sessions, run_tail.is_being_written),
        problems=tuple(run_tail.problems),
        curves=metric_curves(results),
        cost_unit=unit.label if (unit := round_stats.choose_cost_unit(attempts)) else "",
    )


def count_planned_attempts(run: Run, results: list[TaskResult]) -> int:
    """Expected number of attempts when the run is finished."""
    return sum(len(result.attempts) + run.config.remaining_attempts(result.attempts) for result in results)


def metric_curves(results: list[TaskResult]) -> dict[str, Points]:
    """The curve of a run for every measure; empty if there is no data."""
    count, curve = len(results), metrics.cumulative_counts(results)
    by_round = round_stats.attempts_by_round(results)
    unit = round_stats.choose_cost_unit(attempt for result in results for attempt in result.attempts)
    return {
        "correct": [(number, 100 * correct / count) for number, _, correct in curve],
        "compiled": [(number, 100 * compiled / count) for number, compiled, _ in curve],
        "reward": [(n, sum(a.reward for a in attempts) / len(attempts)) for n, attempts in enumerate(by_round, start=1) if attempts],
        "spent": list(enumerate(round_stats.cumulative_costs(results, unit), start=1)) if unit else [],
    }
