"""The evaluation of the surrogate as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.experiments.metrics import PairedDifference
from evokernel.experiments.run_comparison import INTERVAL_NOTE, has_bounds, interval_json
from evokernel.experiments.surrogate_eval import DraftCount, Evaluation, Mean
from evokernel.reports import formatting
from evokernel.reports.tables import Column, Table


def quality_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return one row per kind of forecast: how well it ranks, and how good its probabilities are."""
    columns = (
        Column("forecast from", explanation="earlier attempts of the run, or attempts on other tasks only (each task is held out once)"),
        Column("attempts", "count", explanation="attempts with a forecast"),
        Column("rank correlation", explanation="Spearman's, of forecast and determined latency of a task's kernels; chance is 0"),
        Column("tasks", "count", explanation="tasks with at least three timed kernels"),
        Column("correct first", explanation="how often a task's correct kernel has a higher forecast than an incorrect one; chance: 0.50"),
        Column("Brier score", explanation="mean squared error of the probabilities of being correct"),
        Column("of a constant", explanation="Brier score of the share of correct attempts"),
    )
    rows = tuple(
        (
            one.name,
            one.attempts,
            describe_mean(one.rank_correlation),
            one.rank_correlation.interval.value_count if one.rank_correlation.interval else 0,
            describe_mean(one.auc),
            describe_number(one.brier),
            describe_number(one.base_brier),
        )
        for one in evaluations
    )
    return Table("Forecasts of kernels before their verification", columns, rows, INTERVAL_NOTE)


def reliability_table(evaluation: Evaluation) -> Table:
    """Return one row per range of forecast probabilities."""
    columns = (
        Column("forecast"),
        Column("attempts", "count"),
        Column("mean forecast", "share"),
        Column("correct", "share", explanation="share of these attempts that passed every gate; a calibrated forecast equals it"),
    )
    rows = tuple(
        (f"{100 * one.low:.0f} to {100 * one.high:.0f} %", one.attempts, one.mean_forecast, one.correct_share)
        for one in evaluation.calibration
    )
    return Table(f"Probability of being correct, forecast from {evaluation.name}", columns, rows)


def saving_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return what the order of the forecasts would have saved."""
    columns = (
        Column("forecast from"),
        Column("verifications", explanation="until a kernel within 5 % of the task's fastest one, in the order of the forecasts"),
        Column("in random order", explanation="the same, expected"),
        Column("saved", explanation="share of the verifications in random order, mean over tasks"),
        Column("tasks", "count"),
    )
    rows = tuple(
        (
            one.name,
            describe_mean(one.verifications._replace(p=None)),
            describe_mean(one.random_verifications._replace(p=None)),
            describe_mean(one.saved_share),
            one.saved_share.interval.value_count if one.saved_share.interval else 0,
        )
        for one in evaluations
    )
    return Table("Verifications until a good kernel, among the kernels of each task", columns, rows)


def describe_drafts(count: DraftCount) -> str:
    """`Drafts: 30 written, 10 verified, 20 never verified; another than the first was chosen in 4 of 10 attempts.`"""
    if not count.attempts:
        return "Drafts: these runs wrote one kernel per attempt (drafts_per_attempt = 1)."
    unverified = max(0, count.drafts - count.attempts)
    return (
        f"Drafts: {count.drafts} written, {count.drafts - unverified} verified, {unverified} never verified; "
        f"another than the first was chosen in {count.others_chosen} of {count.attempts} attempts."
    )


def describe_mean(mean: Mean) -> str:
    """`0.31 [0.10 to 0.50], p = 0.004`; without bounds for fewer than six tasks."""
    if mean.interval is None:
        return formatting.UNKNOWN
    bounds = f" [{mean.interval.low:.2f} to {mean.interval.high:.2f}]" if has_bounds(mean.interval) else ""
    return f"{mean.interval.mean:.2f}{bounds}{PairedDifference(mean.interval, mean.p).p_text}"


def describe_number(value: float | None) -> str:
    """`0.183`."""
    return formatting.UNKNOWN if value is None else f"{value:.3f}"


def evaluation_json(evaluation: Evaluation) -> Mapping[str, object]:
    """Return one kind of forecast as JSON."""
    means = ("rank_correlation", "auc", "verifications", "random_verifications", "saved_share")
    return {
        "forecast_from": evaluation.name,
        "attempts": evaluation.attempts,
        **{name: {**(interval_json(mean.interval) or {}), "p": mean.p} for name in means if (mean := getattr(evaluation, name)).interval},
        "brier": evaluation.brier,
        "base_brier": evaluation.base_brier,
        "calibration": [row._asdict() for row in evaluation.calibration],
    }
