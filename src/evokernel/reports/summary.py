"""Summarizes a run as a JSON object for other programs. A figure that was not measured is null, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.reports import metrics
from evokernel.reports.metrics import FAST_P, TaskResult
from evokernel.reports.tables import failure_reason


def summarize_run(run: Run, attempts: Sequence[Attempt], seconds: float | None, report: Path | None) -> dict[str, Any]:
    """Return the object that `run --json` and `report --json` print."""
    results = metrics.collect_results(run, attempts)
    gain = metrics.quartiles(metrics.list_gains(results))
    usage = metrics.total_usage(attempts)
    return {
        "id": run.config.id,
        "folder": str(run.folder),
        "report": str(report) if report else None,
        "finished": not any(run.config.remaining_attempts(result.attempts) for result in results),
        "tasks": len(results),
        "budget": run.config.budget,
        "compiled": metrics.count_compiled(results),
        "compiled_round1": metrics.count_compiled(results, 1),
        "feasible": metrics.count_correct(results),
        "feasible_round1": metrics.count_correct(results, 1),
        "median_gain": gain.median if gain else None,
        "gain_quartiles": [gain.low, gain.high] if gain else None,
        "geomean_speedup": metrics.geometric_mean(metrics.list_speedups(results)),
        "fast_p": {f"{p:g}": metrics.fast_p_share(results, p) for p in FAST_P},
        "fast_p_correct": {f"{p:g}": metrics.fast_p_share(results, p, "correct") for p in FAST_P},
        "reevaluated": sum(result.best_reevaluation is not None for result in results),
        "failed_reevaluation": [attempt.id for result in results for attempt in result.failed_reevaluations],
        "attempts": len(attempts),
        "failures": dict(sorted(metrics.count_failures(attempts).items())),
        "seconds": seconds,
        "cost": usage.cost_usd,
        "model_calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "clock": sorted(metrics.clock_names(attempts)),
        "protocol": sorted(metrics.protocol_names(attempts)),
        "skipped_checks": metrics.list_skipped_checks(attempts),
        "baseline": sorted(metrics.baseline_names(results)),
        "backend": run.config.plugin_name("backend"),
        "generator": run.config.plugin_name("generator"),
        "policy": run.config.plugin_name("policy"),
        "seed": run.config.seed,
        "per_task": [summarize_task(result) for result in results],
    }


def summarize_task(result: TaskResult) -> dict[str, Any]:
    """Return one task's part of the summary."""
    first, best, outcome = result.first_correct, result.best, result.best_outcome
    return {
        "task": result.task.id,
        "family": result.task.family,
        "category": metrics.task_category(result.task),
        "attempts": len(result.attempts),
        "correct": len(result.correct_attempts),
        "compiled": result.is_compiled,
        "feasible": result.is_solved,
        "first_round": result.first_correct_round,
        "first_us": first.outcome.latency_us if first else None,
        "best": best.id if best else None,
        "best_us": outcome.latency_us if outcome else None,
        "noise": outcome.noise if outcome else None,
        "reevaluated": result.best_reevaluation is not None,
        "best_loop_us": best.outcome.latency_us if best else None,
        "failed_reevaluation": {
            attempt.id: failure_reason(result.reevaluations[attempt.id].outcome) for attempt in result.failed_reevaluations
        },
        "baseline": (outcome.baseline_name or None) if outcome else None,
        "baseline_us": result.baseline_us,
        "speedup": result.speedup,
        "gain": result.gain,
        "floor_us": result.floor_us,
        "bottleneck": result.bottleneck,
        "failures": dict(sorted(result.failure_counts.items())),
    }
