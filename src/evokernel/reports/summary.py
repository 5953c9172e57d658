"""A run as one object for other programs. What was not measured is null, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.core.records import Attempt
from evokernel.core.run import Run
from evokernel.reports import metrics
from evokernel.reports.metrics import FAST_P, Tried
from evokernel.reports.tables import why


def summary(run: Run, attempts: Sequence[Attempt], seconds: float | None, report: Path | None) -> dict[str, Any]:
    """What `run --json` and `report --json` end with."""
    found = metrics.of_run(run, attempts)
    gain = metrics.spread(metrics.gains(found))
    usage = metrics.usage(attempts)
    return {
        "id": run.config.id,
        "folder": str(run.folder),
        "report": str(report) if report else None,
        "finished": not any(run.config.remaining_attempts(tried.attempts) for tried in found),
        "tasks": len(found),
        "budget": run.config.budget,
        "compiled": metrics.compiled(found),
        "compiled_round1": metrics.compiled(found, 1),
        "feasible": metrics.feasible(found),
        "feasible_round1": metrics.feasible(found, 1),
        "median_gain": gain.median if gain else None,
        "gain_quartiles": [gain.low, gain.high] if gain else None,
        "geomean_speedup": metrics.geomean(metrics.speedups(found)),
        "fast_p": {f"{p:g}": metrics.fast_p(found, p) for p in FAST_P},
        "fast_p_correct": {f"{p:g}": metrics.fast_p(found, p, "correct") for p in FAST_P},
        "judged_again": sum(tried.final is not None for tried in found),
        "fallen": [attempt.id for tried in found for attempt in tried.fallen],
        "attempts": len(attempts),
        "failures": dict(sorted(metrics.failures(attempts).items())),
        "seconds": seconds,
        "cost": usage.cost_usd,
        "model_calls": usage.calls,
        "tokens_in": usage.input_tokens,
        "tokens_out": usage.output_tokens,
        "clock": sorted(metrics.clocks(attempts)),
        "protocol": sorted(metrics.protocols(attempts)),
        "without": metrics.lacking(attempts),
        "baseline": sorted(metrics.baselines(found)),
        "backend": run.config.plugin_name("backend"),
        "generator": run.config.plugin_name("generator"),
        "policy": run.config.plugin_name("policy"),
        "seed": run.config.seed,
        "per_task": [task_summary(tried) for tried in found],
    }


def task_summary(tried: Tried) -> dict[str, Any]:
    """One task of the summary."""
    first, best, outcome = tried.first, tried.best, tried.outcome
    return {
        "task": tried.task.id,
        "family": tried.task.family,
        "category": metrics.category(tried.task),
        "attempts": len(tried.attempts),
        "correct": len(tried.correct),
        "compiled": tried.compiled,
        "feasible": tried.solved,
        "first_round": tried.first_round,
        "first_us": first.outcome.latency_us if first else None,
        "best": best.id if best else None,
        "best_us": outcome.latency_us if outcome else None,
        "noise": outcome.noise if outcome else None,
        "judged_again": tried.final is not None,
        "before_us": best.outcome.latency_us if best else None,
        "fallen": {attempt.id: why(tried.finals[attempt.id].outcome) for attempt in tried.fallen},
        "baseline": (outcome.baseline_name or None) if outcome else None,
        "baseline_us": tried.baseline_us,
        "speedup": tried.speedup,
        "gain": tried.gain,
        "floor_us": tried.floor_us,
        "bottleneck": tried.bottleneck,
        "failures": dict(sorted(tried.failures.items())),
    }
