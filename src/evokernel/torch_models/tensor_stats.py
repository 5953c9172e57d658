"""Summarises the values of a model's tensor in a few numbers, and writes an expression that draws similar values."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

import torch

from evokernel.reference.arrays import DTYPES

Distribution = Literal["normal", "uniform", "binary", "positive", "rectified", "probability", "unit", "masked", "causal", "bool", "integer"]
MAX_ELEMENTS = 1 << 18
"""Largest number of elements that are inspected."""
MAX_ROWS = 256
MIN_RELU_ZEROS = 0.01
"""Non-negative values with a larger share of exact zeros count as the output of a ReLU."""
MIN_UNIFORM_ELEMENTS, UNIFORM_TOLERANCE = 256, 0.02
"""Smallest number of elements for detecting a uniform distribution, and the allowed deviation as a share of their range."""
NEGLIGIBLE_MEAN = 0.02
"""A mean below this share of the standard deviation counts as zero."""
CONSTANT_SPREAD = 0.2
"""Spread for a tensor whose elements are all equal, as a share of their magnitude, so that a kernel that ignores it fails."""


class TensorStats(NamedTuple):
    """Distribution of a tensor's values."""

    distribution: Distribution
    dtype: str
    centre: float
    """Mean of a normal distribution (of the logarithm for `positive`); share of true values; minimum of integers or uniform values."""
    spread: float
    """Standard deviation of a normal distribution (of the logarithm for `positive`); maximum of integers; range of uniform values."""
    masked_share: float = 0.0
    """Share of elements that are minus infinity."""
    is_constant_in_model: bool = False
    """Whether all elements are equal in the model."""

    def sampling_expression(self, shape: list[str], upper_bound: str = "", scale: str = "") -> str:
        """Return an expression that draws such a tensor; `upper_bound` limits integers, `scale` multiplies floats."""
        size = ", ".join(shape) if shape else "()"
        if self.distribution == "bool":
            return f"torch.rand({size}) < {format_number(self.centre)}"
        if self.distribution == "binary":
            return f"(torch.rand({size}) < {format_number(self.centre)}).to(torch.{self.dtype})"
        if self.distribution == "integer":
            span = f"0, {upper_bound}" if upper_bound else f"{int(self.centre)}, {int(self.spread) + 1}"
            integers = f"torch.randint({span}, ({size}{',' * (len(shape) == 1)}))" if shape else f"torch.randint({span}, ())"
            return integers if self.dtype == "int64" else f"{integers}.to(torch.{self.dtype})"
        expression = self.float_expression(size, shape)
        expression = f"({expression}) * {scale}" if scale and self.distribution not in ("probability", "unit") else expression
        return expression if self.dtype == "float32" else f"({expression}).to(torch.{self.dtype})"

    def float_expression(self, size: str, shape: list[str]) -> str:
        """Return an expression that draws float values."""
        plain = affine_expression(f"torch.rand{'n' * (self.distribution != 'uniform')}({size})", self.centre, self.spread)
        if self.distribution == "positive":
            return f"torch.exp({plain})"
        if self.distribution == "rectified":
            return f"torch.relu({plain})"
        if self.distribution == "probability":
            return f"torch.softmax({affine_expression(f'torch.randn({size})', 0.0, self.spread)}, dim=-1)"
        if self.distribution == "unit":
            return f"F.normalize(torch.randn({size}), dim=-1)"
        if self.distribution == "causal":
            return f'({plain}).masked_fill(torch.ones({shape[-2]}, {shape[-1]}).triu(1).bool(), float("-inf"))'
        if self.distribution == "masked":
            return f'({plain}).masked_fill(torch.rand({size}) < {format_number(self.masked_share)}, float("-inf"))'
        return plain


def summarize_tensor(tensor: torch.Tensor) -> TensorStats:
    """Summarise a tensor's values; a large tensor is subsampled."""
    dtype = DTYPES.get(tensor.dtype, "float32")
    few = tensor.detach().reshape(-1)[:: max(1, tensor.numel() // MAX_ELEMENTS)]
    if dtype == "bool":
        return TensorStats("bool", dtype, float(few.double().mean()) if few.numel() else 0.5, 0.0)
    if not tensor.is_floating_point():
        elements = tensor.detach().reshape(-1)
        return TensorStats(
            "integer", dtype, float(elements.min()) if elements.numel() else 0.0, float(elements.max()) if elements.numel() else 0.0
        )
    values = few.double()
    hidden = values == -math.inf
    values = values[values.isfinite()]
    if not values.numel():
        return TensorStats("normal", dtype, 0.0, 1.0)
    mean, deviation = float(values.mean()), float(values.std(correction=0))
    if hidden.any():
        return TensorStats("causal" if is_causal(tensor) else "masked", dtype, mean, deviation or 1.0, float(hidden.double().mean()))
    rows = tensor.detach()[..., :].reshape(-1, tensor.shape[-1])[:MAX_ROWS].double() if tensor.ndim > 1 and tensor.shape[-1] > 1 else None
    if rows is not None and float(values.min()) >= 0 and are_near_one(rows.sum(-1)):
        return TensorStats("probability", dtype, 0.0, log_moments(values[values > 0])[1] or 1.0)
    if rows is not None and deviation and are_near_one(rows.norm(dim=-1)):
        return TensorStats("unit", dtype, 0.0, 1.0)
    return fit_distribution(values, mean, deviation, dtype)


def fit_distribution(values: torch.Tensor, mean: float, deviation: float, dtype: str) -> TensorStats:
    """Fit a distribution by mean and standard deviation; keeps the sign if all values share it, and the zeros of a ReLU."""
    if deviation <= 1e-6 * abs(mean) or not deviation:
        spread = CONSTANT_SPREAD * (abs(mean) or 1.0)
        return (
            fit_lognormal(mean, spread, dtype, True) if mean > 0 else TensorStats("normal", dtype, mean, spread, is_constant_in_model=True)
        )
    low, high = float(values.min()), float(values.max())
    middle, width = (low + high) / 2, high - low
    if (
        values.numel() >= MIN_UNIFORM_ELEMENTS
        and abs(mean - middle) < UNIFORM_TOLERANCE * width
        and abs(deviation - width / math.sqrt(12)) < UNIFORM_TOLERANCE * width
    ):
        return TensorStats("uniform", dtype, low, width)
    if low == 0 and high == 1 and bool((values * (values - 1) == 0).all()):
        return TensorStats("binary", dtype, mean, 0.0)
    if low < 0:
        return TensorStats("normal", dtype, mean, deviation)
    zeros = float((values == 0).double().mean())
    if zeros <= MIN_RELU_ZEROS:
        return fit_lognormal(mean, deviation, dtype, False)
    point = -NormalDist().inv_cdf(min(zeros, 0.99))
    size = mean / (point * NormalDist().cdf(point) + NormalDist().pdf(point))
    return TensorStats("rectified", dtype, point * size, size)


def fit_lognormal(mean: float, deviation: float, dtype: str, is_varied: bool) -> TensorStats:
    """Return a log-normal distribution with this mean and standard deviation."""
    variance = math.log1p((deviation / mean) ** 2)
    return TensorStats("positive", dtype, math.log(mean) - variance / 2, math.sqrt(variance), is_constant_in_model=is_varied)


def log_moments(values: torch.Tensor) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm."""
    logs = values.log()
    return float(logs.mean()), float(logs.std(correction=0))


def are_near_one(values: torch.Tensor) -> bool:
    """Return whether all values are about 1."""
    return bool(((values - 1).abs() < 1e-3).all())


def is_causal(tensor: torch.Tensor) -> bool:
    """Return whether exactly the elements above the diagonal are minus infinity."""
    if tensor.ndim < 2:
        return False
    hidden = tensor.detach() == -math.inf
    return bool((hidden == torch.ones(tensor.shape[-2:], dtype=torch.bool).triu(1)).all())


def affine_expression(draw: str, centre: float, spread: float) -> str:
    """Return an expression such as `torch.randn(64, 32) * 0.5 + 2`."""
    by = "" if format_number(spread) == "1" else f" * {format_number(spread)}"
    about = "" if abs(centre) < NEGLIGIBLE_MEAN * spread else f" {'+' if centre > 0 else '-'} {format_number(abs(centre))}"
    return f"{draw}{by}{about}"


def format_number(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.3g}"
