"""Small regularised regressions in closed form or with a fixed number of steps: equal data give equal models.

Both work on the products of pairs of rows (the dual form), because there are more features than attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import NamedTuple

import numpy as np

PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Penalties of a ridge regression relative to the mean squared length of a row; the leave-one-out error decides."""
LOGISTIC_PENALTY, STEPS, CURVATURE = 1.0, 100, 0.25
"""Steps of a logistic regression, all with the largest curvature that its likelihood has anywhere: none can overshoot (Böhning, 1992)."""
MAX_LOG_ODDS = 8.0
PLATT_PRIOR = 4.0
"""Weight of the prior that forecasts are calibrated already, in attempts."""
MIN_SLOPE, MAX_SLOPE = 0.05, 3.0
TINY = 1e-12


class LinearModel(NamedTuple):
    """A linear function of a row of features: a logarithm of latency, or log-odds."""

    weights: np.ndarray
    intercept: float
    centre: np.ndarray
    scale: float

    def predict(self, row: np.ndarray) -> float:
        """Return the function's value."""
        return self.intercept + float((row - self.centre) @ self.weights) / self.scale


def standardize(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the rows minus their mean, with a mean squared length of 1; the mean; and the factor."""
    centre = rows.mean(axis=0)
    scale = float(np.sqrt(max(float(((rows - centre) ** 2).sum(axis=1).mean()), TINY)))
    return (rows - centre) / scale, centre, scale


def fit_ridge(rows: np.ndarray, targets: np.ndarray) -> LinearModel:
    """Fit a ridge regression whose penalty has the smallest leave-one-out error (Allen's PRESS)."""
    centred, centre, scale = standardize(rows)
    intercept = float(targets.mean())
    residuals = targets - intercept
    values, vectors = np.linalg.eigh(centred @ centred.T)
    projected = vectors.T @ residuals
    best_error, best_coefficients = np.inf, np.zeros(len(targets))
    for penalty in PENALTIES:
        inverse = 1.0 / (np.maximum(values, 0.0) + penalty)
        coefficients = vectors @ (inverse * projected)
        error = float(np.mean((coefficients / (vectors**2 @ inverse)) ** 2))
        if error < best_error - TINY:
            best_error, best_coefficients = error, coefficients
    return LinearModel(centred.T @ best_coefficients, intercept, centre, scale)


def fit_logistic(rows: np.ndarray, labels: np.ndarray) -> LinearModel:
    """Fit a logistic regression in a fixed number of steps. Labels of one kind only give constant log-odds (rule of succession)."""
    centred, centre, scale = standardize(rows)
    count, positives = len(labels), int(labels.sum())
    prior = float(np.log((positives + 1) / (count - positives + 1)))
    if positives in (0, count):
        return LinearModel(np.zeros(rows.shape[1]), prior, centre, scale)
    products = centred @ centred.T
    system = np.ones((count + 1, count + 1))
    system[:count, :count] = products + np.eye(count) * LOGISTIC_PENALTY / CURVATURE
    system[count, count] = 0.0
    inverse = np.linalg.inv(system)
    scores, coefficients, intercept = np.full(count, prior), np.zeros(count), prior
    for _ in range(STEPS):
        solution = inverse @ np.append(scores + (labels - logistic(scores)) / CURVATURE, 0.0)
        coefficients, intercept = solution[:count], float(solution[count])
        scores = products @ coefficients + intercept
    return LinearModel(centred.T @ coefficients, intercept, centre, scale)


def logistic(scores: np.ndarray) -> np.ndarray:
    """Return the probabilities of log-odds."""
    chances: np.ndarray = 1 / (1 + np.exp(-scores))
    return chances


class PlattScaling(NamedTuple):
    """Calibration of log-odds: a slope and an offset (Platt 1999)."""

    slope: float = 1.0
    offset: float = 0.0

    def probability(self, score: float) -> float:
        """Return the calibrated probability."""
        return 1 / (1 + exp(-(self.slope * score + self.offset)))


def fit_platt(pairs: Sequence[tuple[float, bool]]) -> PlattScaling:
    """Fit the scaling to earlier forecasts and what became of them, in steps from the identity, which is also the prior."""
    if not pairs:
        return PlattScaling()
    scores, labels = np.array([score for score, _ in pairs]), np.array([float(label) for _, label in pairs])
    rows = np.stack([scores, np.ones(len(pairs))], axis=1)
    prior = np.array([1.0, 0.0])
    inverse = np.linalg.inv(CURVATURE * rows.T @ rows + PLATT_PRIOR * np.eye(2))
    point = prior
    for _ in range(STEPS):
        point = point + inverse @ (rows.T @ (labels - logistic(rows @ point)) - PLATT_PRIOR * (point - prior))
    return PlattScaling(float(np.clip(point[0], MIN_SLOPE, MAX_SLOPE)), float(np.clip(point[1], -MAX_LOG_ODDS, MAX_LOG_ODDS)))
