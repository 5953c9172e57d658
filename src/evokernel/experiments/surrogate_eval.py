"""Evaluates the surrogate on the journals of runs: how well it ranks kernels, whether its probabilities hold, what it would save.

Each attempt is forecast in two ways, always without having seen it: from the earlier attempts of its run, as in a run with several drafts
per attempt; and from other tasks only, which are held out in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt, Draft, Task
from evokernel.core.run import Run
from evokernel.engine.drafts import expected_result
from evokernel.engine.surrogate import MIN_SAMPLES, FittedSurrogate, Forecast, Sample, Surrogate, is_informative, make_sample
from evokernel.experiments.intervals import Interval, bootstrap_interval, p_value

FOLDS = 5
"""Groups of tasks that are held out in turn."""
MIN_RANKED = 3
"""Kernels of a task with a forecast and a latency, from which their ranking is compared."""
GOOD_SHARE = 0.05
"""A kernel counts as good if it is at most this share slower than the task's fastest one."""
BINS = 5


class Recorded(NamedTuple):
    """An attempt of a journal with its task, and what the surrogate learns from it."""

    run: str
    task: Task
    attempt: Attempt
    sample: Sample


class ForecastAttempt(NamedTuple):
    """An attempt, and what was forecast for it without having seen it."""

    recorded: Recorded
    forecast: Forecast

    @property
    def latency_us(self) -> float | None:
        """The latency that the verifier determined; None if the kernel failed."""
        outcome = self.recorded.attempt.outcome
        return outcome.latency_us if outcome.feasible else None

    @property
    def is_correct(self) -> bool:
        return self.recorded.attempt.outcome.feasible


class Mean(NamedTuple):
    """A mean over tasks with its interval, and the probability of such a distance from chance; None without any task."""

    interval: Interval | None
    p: float | None = None


class Calibration(NamedTuple):
    """Attempts whose forecast probability lies in one range."""

    low: float
    high: float
    attempts: int
    mean_forecast: float
    correct_share: float


class Evaluation(NamedTuple):
    """How one kind of forecasts did."""

    name: str
    attempts: int
    """Attempts with a forecast."""
    rank_correlation: Mean
    """Spearman's correlation of forecast and determined latency, over the kernels of one task; chance is 0."""
    auc: Mean
    """Probability that a correct kernel of a task has a higher forecast than an incorrect one of it; chance is 0.5."""
    brier: float | None
    base_brier: float | None
    """Brier score of forecasting the share of correct attempts, with that share known."""
    calibration: tuple[Calibration, ...]
    verifications: Mean
    """Verifications until a good kernel, in the order of the forecasts."""
    random_verifications: Mean
    """The same in random order, on average."""
    saved_share: Mean
    """Share of the verifications in random order that the forecasts save."""


class DraftCount(NamedTuple):
    """Drafts of runs with several drafts per attempt."""

    attempts: int
    drafts: int
    """Drafts with code; all but one of each attempt were never verified."""
    others_chosen: int
    """Attempts whose first draft was not chosen."""


def read_attempts(runs: Sequence[Run]) -> list[Recorded]:
    """Return the attempts of runs that say something about code, in the order of the journals. Raises UserError for unlike backends."""
    backends = sorted({run.config.plugin_name("backend") for run in runs})
    if len(backends) > 1:
        raise UserError(f"the runs are of several backends ({', '.join(backends)}). Evaluate the runs of one backend at a time.")
    records = []
    for run in runs:
        tasks, history = {task.id: task for task in run.tasks}, dict[str, list[Attempt]]()
        for attempt in run.attempts():
            before = history.setdefault(attempt.task, [])
            if attempt.task in tasks and is_informative(attempt):
                records.append(Recorded(run.config.id, tasks[attempt.task], attempt, make_sample(tasks[attempt.task], attempt, before)))
            before.append(attempt)
    if not records:
        raise UserError("the runs contain no verified kernel. Name runs with attempts.")
    return records


def forecast_one(fitted: FittedSurrogate, recorded: Recorded) -> ForecastAttempt:
    """Forecast an attempt as a run would have done before the verification."""
    return ForecastAttempt(recorded, fitted.forecast_features(recorded.task, recorded.sample.features))


def forecast_in_order(records: Sequence[Recorded]) -> list[ForecastAttempt]:
    """Forecast each attempt from the earlier attempts of its run."""
    surrogates: dict[str, Surrogate] = {}
    forecasts = []
    for recorded in records:
        surrogate = surrogates.setdefault(recorded.run, Surrogate())
        forecasts.append(forecast_one(surrogate.fitted, recorded))
        surrogate.learn_sample(recorded.sample)
    return forecasts


def forecast_held_out(records: Sequence[Recorded]) -> list[ForecastAttempt]:
    """Forecast the attempts on each group of tasks from the attempts on all other tasks, of all runs."""
    tasks = sorted({recorded.task.id for recorded in records})
    forecasts = []
    for fold in range(min(FOLDS, len(tasks))):
        held_out, surrogate = set(tasks[fold::FOLDS]), Surrogate()
        for recorded in records:
            if recorded.task.id not in held_out:
                surrogate.learn_sample(recorded.sample)
        fitted = surrogate.fit() if len(surrogate.samples) >= MIN_SAMPLES else surrogate.fitted
        forecasts += [forecast_one(fitted, recorded) for recorded in records if recorded.task.id in held_out]
    return forecasts


def evaluate(name: str, forecasts: Sequence[ForecastAttempt]) -> Evaluation:
    """Compare forecasts with outcomes."""
    rated = [one for one in forecasts if one.forecast.p_correct is not None]
    chances = np.array([one.forecast.p_correct for one in rated])
    labels = np.array([float(one.is_correct) for one in rated])
    searches = {key: search for key, group in group_by_task(forecasts).items() if (search := count_verifications(group))}
    return Evaluation(
        name=name,
        attempts=len(rated),
        rank_correlation=mean_over_tasks(forecasts, correlate_ranks),
        auc=mean_over_tasks(forecasts, area_under_curve, 0.5),
        brier=float(((chances - labels) ** 2).mean()) if rated else None,
        base_brier=float(labels.mean() * (1 - labels.mean())) if rated else None,
        calibration=calibrate(chances, labels),
        verifications=mean_of({key: search[0] for key, search in searches.items()}),
        random_verifications=mean_of({key: search[1] for key, search in searches.items()}),
        saved_share=mean_of({key: 1 - search[0] / search[1] for key, search in searches.items()}),
    )


def group_by_task(forecasts: Sequence[ForecastAttempt]) -> dict[tuple[str, str], list[ForecastAttempt]]:
    """Return forecasts by task and run: latencies of different runs may come from different machines."""
    groups: dict[tuple[str, str], list[ForecastAttempt]] = {}
    for one in forecasts:
        groups.setdefault((one.recorded.task.id, one.recorded.run), []).append(one)
    return groups


def mean_over_tasks(
    forecasts: Sequence[ForecastAttempt], measure: Callable[[Sequence[ForecastAttempt]], float | None], chance: float = 0.0
) -> Mean:
    """Return the mean of a measure over tasks."""
    values = {key: value for key, group in group_by_task(forecasts).items() if (value := measure(group)) is not None}
    return mean_of(values, chance)


def mean_of(values: Mapping[tuple[str, str], float], chance: float = 0.0) -> Mean:
    """Return the mean over tasks; the values of one task in several runs count as one, their mean."""
    tasks = dict.fromkeys(task for task, _ in values)
    grid = np.array([[np.mean([value for (name, _), value in values.items() if name == task])] for task in tasks])
    return Mean(bootstrap_interval(grid), p_value(grid - chance)) if values else Mean(None)


def correlate_ranks(group: Sequence[ForecastAttempt]) -> float | None:
    """Return Spearman's rank correlation of forecast and determined latency; 0 for equal forecasts, None for too few or equal kernels."""
    from scipy import stats

    pairs = [(one.forecast.latency_us, one.latency_us) for one in group if one.forecast.latency_us and one.latency_us]
    if len(pairs) < MIN_RANKED or len({own for _, own in pairs}) == 1:
        return None
    forecast, determined = (stats.rankdata(column) for column in zip(*pairs))
    return float(np.corrcoef(forecast, determined)[0, 1]) if np.ptp(forecast) else 0.0


def area_under_curve(group: Sequence[ForecastAttempt]) -> float | None:
    """Return the share of pairs of a correct and an incorrect kernel in which the correct one has the higher forecast."""
    right = [one.forecast.p_correct for one in group if one.is_correct and one.forecast.p_correct is not None]
    wrong = [one.forecast.p_correct for one in group if not one.is_correct and one.forecast.p_correct is not None]
    wins = [1.0 if high > low else 0.5 if high == low else 0.0 for high in right for low in wrong]
    return sum(wins) / len(wins) if wins else None


def calibrate(chances: np.ndarray, labels: np.ndarray) -> tuple[Calibration, ...]:
    """Return the reliability table: forecasts in equal ranges of probability, and how often they came true."""
    rows = []
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        own = (chances >= low) & ((chances < high) | (number == BINS - 1))
        if own.any():
            rows.append(Calibration(low, high, int(own.sum()), float(chances[own].mean()), float(labels[own].mean())))
    return tuple(rows)


def count_verifications(group: Sequence[ForecastAttempt]) -> tuple[float, float] | None:
    """Return the verifications until a good kernel in the order of the forecasts, and on average in random order; None if all are good.

    The order is that of a run without a best kernel: by expected speed, earlier attempts first among equals.
    """
    unique = list({one.recorded.attempt.candidate.id: one for one in group if one.forecast != Forecast()}.values())
    latencies = [one.latency_us for one in unique if one.latency_us]
    if len(unique) < MIN_RANKED or not latencies:
        return None
    is_good = [bool(one.latency_us) and (one.latency_us or 0.0) <= (1 + GOOD_SHARE) * min(latencies) for one in unique]
    if all(is_good):
        return None
    order = sorted(range(len(unique)), key=lambda at: -expected_result(unique[at].forecast, None))
    return 1.0 + next(place for place, at in enumerate(order) if is_good[at]), (len(unique) + 1) / (sum(is_good) + 1)


def count_drafts(runs: Sequence[Run]) -> DraftCount:
    """Count the drafts that runs wrote and did not verify."""
    attempts = [attempt.drafts for run in runs for attempt in run.attempts() if attempt.drafts]
    return DraftCount(len(attempts), sum(len(with_code(drafts)) for drafts in attempts), sum(not d[0].is_chosen for d in attempts))


def with_code(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts whose reply contained code."""
    return [draft for draft in drafts if draft.candidate]


def evaluate_runs(runs: Sequence[Run]) -> tuple[Evaluation, Evaluation]:
    """Evaluate both kinds of forecasts."""
    records = read_attempts(runs)
    return evaluate("earlier attempts", forecast_in_order(records)), evaluate("other tasks", forecast_held_out(records))
