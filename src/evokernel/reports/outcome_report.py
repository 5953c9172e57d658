"""The outcome of one kernel as a JSON record and as rows of labels and values, for every caller that shows a verification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evokernel.core.labels import format_count, format_setting
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.reports import formatting, metrics, opportunities

GATES = ("screen", "build", "check", "time")
"""The gates of every verification; others depend on the backend and the settings."""


def list_unreached_gates(outcome: Outcome) -> list[str]:
    """Return the gates behind the one that failed."""
    reached = {gate.gate for gate in outcome.gates}
    return [name for name in GATES if name not in reached]


def outcome_record(task: Task, kernel: Candidate, outcome: Outcome) -> dict[str, Any]:
    """The outcome and the figures derived from it, as JSON."""
    return {"task": task.id, **outcome_figures(kernel, outcome), "outcome": outcome.model_dump(mode="json")}


def outcome_figures(kernel: Candidate, outcome: Outcome) -> dict[str, Any]:
    """The figures derived from an outcome, as JSON."""
    best_baseline = metrics.fastest_baseline(outcome)
    return {
        "candidate": kernel.id,
        "feasible": outcome.feasible,
        "reason": outcome.failure.reason if outcome.failure else None,
        "latency_us": outcome.latency_us,
        "noise": outcome.noise,
        "clock": outcome.clock or None,
        "speedup": outcome.speedup,
        "baseline_us": {name: outcome.baseline_latency_us(name) for name in outcome.baseline_us},
        "best_baseline": best_baseline._asdict() if best_baseline else None,
        "floor_us": metrics.roofline_us(outcome),
        "bottleneck": outcome.profile.bottleneck if outcome.profile else None,
        "opportunities": opportunities.opportunity_records(outcome),
    }


def measurement_rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Latency, baselines, profile and versions as labels and values."""
    if outcome.latency_us is not None:
        count = len(outcome.samples_us)
        samples = f", {count} samples" if count > 1 else ""
        latency = f"{formatting.format_latency(outcome.latency_us)}{formatting.format_noise(outcome.noise)}"
        yield "latency", f"{latency}, {formatting.clock_label([outcome.clock])}{samples}"
        for name in outcome.baseline_us:
            base = outcome.baseline_latency_us(name)
            speed = formatting.format_speed(base / outcome.latency_us if base else None)
            yield formatting.baseline_label([name]), f"{formatting.format_latency(base)}, kernel {speed}"
        if len(outcome.baseline_us) > 1 and (best := metrics.fastest_baseline(outcome)):
            name, speed = formatting.baseline_label([best.name]), formatting.format_speed(best.speedup)
            yield "fastest baseline", f"{name}, {formatting.format_latency(best.us)}, kernel {speed}"
    if outcome.profile:
        if floor_us := metrics.roofline_us(outcome):
            yield (
                "floor",
                f"{formatting.format_latency(floor_us)}, the time that the task's bytes and operations take at the limits of the device",
            )
        yield f"bound by {outcome.profile.bottleneck}", outcome.profile.summary
    if outcome.run_share is not None and outcome.compared_share is not None:
        yield (
            "timed size",
            f"too large to run whole: parts with {outcome.run_share:.2%} of the output ran{describe_random_parts(outcome)}, "
            f"{outcome.compared_share:.3%} was compared",
        )
    yield from tuning_rows(outcome)
    yield from (("not checked", text) for text in outcome.skipped_checks)
    yield from outcome.versions.items()


def describe_random_parts(outcome: Outcome) -> str:
    """The number of parts at random positions, from which the probability that an error escapes follows; empty if it was not recorded."""
    return "" if outcome.random_parts is None else f" ({outcome.random_parts} at random positions)"


def tuning_rows(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The settings of tunables that were tried, one per row, and the chosen one."""
    tuning = outcome.tuning
    if tuning is None:
        return
    for trial in tuning.trials:
        result = trial.reason if trial.latency_us is None else formatting.format_latency(trial.latency_us)
        speed = f", {trial.speedup:.3f}x the default's speed" if trial.speedup else ""
        yield (
            {"search": "tried", "confirm": "measured again", "verify": "verified"}[trial.stage],
            f"{format_setting(trial.setting)}: {result}{speed}",
        )
    count = sum(trial.stage == "search" for trial in tuning.trials)
    summary = (
        f"{format_setting(tuning.chosen)}, {tuning.gain:.3f}x the default's speed; {format_count(count, 'trial')} in {tuning.seconds:.0f} s"
    )
    yield "tuned", summary + (f" ({tuning.note})" if tuning.note else "")
