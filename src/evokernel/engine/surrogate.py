"""The surrogate: a cheap forecast of a kernel's latency and of its chance to be correct, learned from the attempts of a run.

It is a fold of the journal: the same attempts in the same order give the same surrogate, so a resumed run forecasts as a straight one.
Latency is a ridge regression on code features, centred by task: what makes one kernel of a task faster than another. Correctness is a
regularised logistic regression. Each attempt is forecast before it is learned; these honest forecasts calibrate the later ones (Platt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import NamedTuple

import numpy as np

from evokernel.core.records import UNDECIDED_REASONS, Attempt, Candidate, Task
from evokernel.engine.code_features import describe_size, extract_features
from evokernel.engine.regression import MAX_LOG_ODDS, LinearModel, PlattScaling, fit_logistic, fit_platt, fit_ridge

MIN_SAMPLES = 8
"""Attempts with code before which nothing is forecast."""
MAX_SAMPLES = 600
"""Latest attempts from which the surrogate learns: a fit takes the cube of their number."""
REFIT_SHARE = 0.1
"""The surrogate is fitted again when it has seen this share of attempts more. The schedule counts attempts only, so it repeats."""
DIGITS = 6
"""Digits of a forecast: rounding keeps choices equal where libraries of linear algebra differ in the last bit."""


class Forecast(NamedTuple):
    """What the surrogate expects of a kernel before it is verified. None: too few attempts to say."""

    p_correct: float | None = None
    """Calibrated probability that it passes every gate."""
    latency_us: float | None = None
    """Latency in microseconds if it does."""


NO_FORECAST = Forecast()


class Sample(NamedTuple):
    """What the surrogate keeps of one attempt."""

    task: str
    features: np.ndarray
    size: np.ndarray
    is_correct: bool
    log_latency: float | None
    """Logarithm of the latency in microseconds; None if the kernel was not timed."""


class LatencyModel(NamedTuple):
    """Latency of a kernel: the level of its task, and how its code differs from the average code of the task."""

    code: LinearModel
    """From code features minus their mean over a task to the logarithm of the latency minus its mean over the task."""
    size: LinearModel
    """From a task's size to its mean: the level of a task without any timed kernel."""
    levels: dict[str, tuple[np.ndarray, float]]
    """Mean features and mean logarithm of the latency of each task."""
    mean_features: np.ndarray

    def forecast(self, task: str, features: np.ndarray, size: np.ndarray) -> float:
        """Return the logarithm of the latency in microseconds."""
        reference, level = self.levels.get(task) or (self.mean_features, self.size.predict(size))
        return level + self.code.predict(features - reference)


@dataclass(frozen=True, eq=False)
class FittedSurrogate:
    """A surrogate at one moment; it never changes, so that any thread may use it."""

    latency: LatencyModel | None = None
    correctness: LinearModel | None = None
    calibration: PlattScaling = PlattScaling()

    def forecast(self, task: Task, candidate: Candidate, start: Attempt | None = None) -> Forecast:
        """Forecast a kernel; `start` is the kernel that it refines."""
        if not candidate.files or (self.latency is None and self.correctness is None):
            return NO_FORECAST
        return self.forecast_features(task, extract_features(task, candidate, start))

    def forecast_features(self, task: Task, features: np.ndarray) -> Forecast:
        """Forecast a kernel with these features."""
        score = self.score(features)
        log_latency = self.log_latency(task.id, features, describe_size(task))
        return Forecast(
            None if score is None else round(self.calibration.probability(score), DIGITS),
            None if log_latency is None else round_figures(exp(log_latency)),
        )

    def score(self, features: np.ndarray) -> float | None:
        """Return the log-odds of being correct, before calibration."""
        return min(MAX_LOG_ODDS, max(-MAX_LOG_ODDS, self.correctness.predict(features))) if self.correctness else None

    def log_latency(self, task: str, features: np.ndarray, size: np.ndarray) -> float | None:
        """Return the logarithm of the latency in microseconds."""
        return self.latency.forecast(task, features, size) if self.latency else None


@dataclass
class Surrogate:
    """Learns from attempts in the order of the journal."""

    samples: list[Sample] = field(default_factory=list)
    scores: list[tuple[float, bool]] = field(default_factory=list)
    """Log-odds of each attempt as forecast before it was learned, and whether it was correct."""
    fitted: FittedSurrogate = field(default_factory=FittedSurrogate)
    """The surrogate as of the last fit."""
    sample_count: int = 0
    next_fit: int = MIN_SAMPLES

    def learn(self, task: Task, attempt: Attempt, earlier: Sequence[Attempt]) -> None:
        """Learn from an attempt; `earlier` are the attempts on the task before it. Attempts that decide nothing about code are skipped."""
        if is_informative(attempt):
            self.learn_sample(make_sample(task, attempt, earlier))

    def learn_sample(self, sample: Sample) -> None:
        """Learn from what an attempt showed; fit again if it is time."""
        if (score := self.fitted.score(sample.features)) is not None:
            self.scores = [*self.scores, (score, sample.is_correct)][-MAX_SAMPLES:]
        self.samples = [*self.samples, sample][-MAX_SAMPLES:]
        self.sample_count += 1
        if self.sample_count >= self.next_fit:
            self.fitted = self.fit()
            self.next_fit = self.sample_count + max(1, int(REFIT_SHARE * self.sample_count))

    def fit(self) -> FittedSurrogate:
        """Fit the surrogate to the samples so far."""
        features = np.array([sample.features for sample in self.samples])
        is_correct = np.array([sample.is_correct for sample in self.samples])
        return FittedSurrogate(fit_latency(self.samples), fit_logistic(features, is_correct), fit_platt(self.scores))


def is_informative(attempt: Attempt) -> bool:
    """Return whether an attempt says something new about its code: it was verified itself, and not ended by the machine."""
    failure, outcome = attempt.outcome.failure, attempt.outcome
    is_undecided = failure is not None and (failure.gate == "write" or failure.reason in UNDECIDED_REASONS or failure.reason == "revoked")
    return bool(attempt.candidate.files) and bool(outcome.gates) and not outcome.reused_from and not is_undecided


def make_sample(task: Task, attempt: Attempt, earlier: Sequence[Attempt]) -> Sample:
    """Return what the surrogate keeps of an attempt."""
    outcome = attempt.outcome
    features = extract_features(task, attempt.candidate, find_start(attempt, earlier))
    log_latency = log(outcome.latency_us) if outcome.feasible and outcome.latency_us else None
    return Sample(task.id, features, describe_size(task), outcome.feasible, log_latency)


def find_start(attempt: Attempt, earlier: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt that another one refines."""
    return next((other for other in earlier if other.id == attempt.start_point), None)


def fit_latency(samples: Sequence[Sample]) -> LatencyModel | None:
    """Fit the model of latencies to the timed samples; None with too few of them."""
    timed = [sample for sample in samples if sample.log_latency is not None]
    if len(timed) < MIN_SAMPLES:
        return None
    levels = {}
    for task in dict.fromkeys(sample.task for sample in timed):
        own = [sample for sample in timed if sample.task == task]
        levels[task] = (np.mean([s.features for s in own], axis=0), float(np.mean([s.log_latency for s in own])))
    sizes = {sample.task: sample.size for sample in timed}
    differences = np.array([sample.features - levels[sample.task][0] for sample in timed])
    targets = np.array([(sample.log_latency or 0.0) - levels[sample.task][1] for sample in timed])
    size_model = fit_ridge(np.array([sizes[task] for task in levels]), np.array([level for _, level in levels.values()]))
    mean_features = np.mean([features for features, _ in levels.values()], axis=0)
    return LatencyModel(fit_ridge(differences, targets), size_model, levels, mean_features)


def round_figures(value: float) -> float:
    """Round to significant figures."""
    return float(f"{value:.{DIGITS}g}")
