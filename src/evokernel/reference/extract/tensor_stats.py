"""What a tensor of a model looks like, in few numbers, and text that draws others like it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

import torch

from evokernel.reference.arrays import DTYPES

Kind = Literal["normal", "uniform", "binary", "positive", "rectified", "probability", "unit", "masked", "causal", "bool", "integer"]
MOST = 1 << 18
"""Elements that are looked at."""
ROWS = 256
ZEROS = 0.01
"""A larger share of exact zeros than this among numbers that are never negative is taken for a ReLU's."""
FEW, EVEN = 256, 0.02
"""From so many elements on it can be told whether they are spread evenly, to this share of their range."""
NEGLIGIBLE = 0.02
"""A mean closer to zero than this share of the deviation is none."""
SPREAD = 0.2
"""Of a tensor whose elements are all equal, as a share of their size, so that what it is for can be told from its being left out."""


class Likeness(NamedTuple):
    """What is kept of a tensor."""

    kind: Kind
    dtype: str
    centre: float
    """Mean of a normal distribution, of the logarithm where all is positive; share of true; smallest integer or evenly spread number."""
    spread: float
    """The same for the deviation; the largest integer; the range of evenly spread numbers."""
    hidden: float = 0.0
    """Share of elements that are minus infinity."""
    is_varied: bool = False
    """Whether all elements are equal in the model."""

    def text(self, shape: list[str], most: str = "", scale: str = "") -> str:
        """An expression that draws such a tensor; `most` is what integers stay below, `scale` a factor for floating-point numbers."""
        size = ", ".join(shape) if shape else "()"
        if self.kind == "bool":
            return f"torch.rand({size}) < {short(self.centre)}"
        if self.kind == "binary":
            return f"(torch.rand({size}) < {short(self.centre)}).to(torch.{self.dtype})"
        if self.kind == "integer":
            span = f"0, {most}" if most else f"{int(self.centre)}, {int(self.spread) + 1}"
            whole = f"torch.randint({span}, ({size}{',' * (len(shape) == 1)}))" if shape else f"torch.randint({span}, ())"
            return whole if self.dtype == "int64" else f"{whole}.to(torch.{self.dtype})"
        found = self.floats(size, shape)
        found = f"({found}) * {scale}" if scale and self.kind not in ("probability", "unit") else found
        return found if self.dtype == "float32" else f"({found}).to(torch.{self.dtype})"

    def floats(self, size: str, shape: list[str]) -> str:
        """The same for floating-point numbers."""
        plain = linear(f"torch.rand{'n' * (self.kind != 'uniform')}({size})", self.centre, self.spread)
        if self.kind == "positive":
            return f"torch.exp({plain})"
        if self.kind == "rectified":
            return f"torch.relu({plain})"
        if self.kind == "probability":
            return f"torch.softmax({linear(f'torch.randn({size})', 0.0, self.spread)}, dim=-1)"
        if self.kind == "unit":
            return f"F.normalize(torch.randn({size}), dim=-1)"
        if self.kind == "causal":
            return f'({plain}).masked_fill(torch.ones({shape[-2]}, {shape[-1]}).triu(1).bool(), float("-inf"))'
        if self.kind == "masked":
            return f'({plain}).masked_fill(torch.rand({size}) < {short(self.hidden)}, float("-inf"))'
        return plain


def likeness(tensor: torch.Tensor) -> Likeness:
    """Looks at a tensor; of a large one, at some of it."""
    dtype = DTYPES.get(tensor.dtype, "float32")
    few = tensor.detach().reshape(-1)[:: max(1, tensor.numel() // MOST)]
    if dtype == "bool":
        return Likeness("bool", dtype, float(few.double().mean()) if few.numel() else 0.5, 0.0)
    if not tensor.is_floating_point():
        whole = tensor.detach().reshape(-1)
        return Likeness("integer", dtype, float(whole.min()) if whole.numel() else 0.0, float(whole.max()) if whole.numel() else 0.0)
    values = few.double()
    hidden = values == -math.inf
    values = values[values.isfinite()]
    if not values.numel():
        return Likeness("normal", dtype, 0.0, 1.0)
    mean, deviation = float(values.mean()), float(values.std(correction=0))
    if hidden.any():
        return Likeness("causal" if is_causal(tensor) else "masked", dtype, mean, deviation or 1.0, float(hidden.double().mean()))
    rows = tensor.detach()[..., :].reshape(-1, tensor.shape[-1])[:ROWS].double() if tensor.ndim > 1 and tensor.shape[-1] > 1 else None
    if rows is not None and float(values.min()) >= 0 and is_near(rows.sum(-1)):
        return Likeness("probability", dtype, 0.0, logarithm(values[values > 0])[1] or 1.0)
    if rows is not None and deviation and is_near(rows.norm(dim=-1)):
        return Likeness("unit", dtype, 0.0, 1.0)
    return moments(values, mean, deviation, dtype)


def moments(values: torch.Tensor, mean: float, deviation: float, dtype: str) -> Likeness:
    """By mean and deviation, with the sign kept where all have one, and a ReLU's zeros where there are such."""
    if deviation <= 1e-6 * abs(mean) or not deviation:
        spread = SPREAD * (abs(mean) or 1.0)
        return positive(mean, spread, dtype, True) if mean > 0 else Likeness("normal", dtype, mean, spread, is_varied=True)
    low, high = float(values.min()), float(values.max())
    middle, width = (low + high) / 2, high - low
    if values.numel() >= FEW and abs(mean - middle) < EVEN * width and abs(deviation - width / math.sqrt(12)) < EVEN * width:
        return Likeness("uniform", dtype, low, width)
    if low == 0 and high == 1 and bool((values * (values - 1) == 0).all()):
        return Likeness("binary", dtype, mean, 0.0)
    if low < 0:
        return Likeness("normal", dtype, mean, deviation)
    zeros = float((values == 0).double().mean())
    if zeros <= ZEROS:
        return positive(mean, deviation, dtype, False)
    point = -NormalDist().inv_cdf(min(zeros, 0.99))
    size = mean / (point * NormalDist().cdf(point) + NormalDist().pdf(point))
    return Likeness("rectified", dtype, point * size, size)


def positive(mean: float, deviation: float, dtype: str, is_varied: bool) -> Likeness:
    """Numbers above zero with this mean and deviation: those of a log-normal distribution."""
    variance = math.log1p((deviation / mean) ** 2)
    return Likeness("positive", dtype, math.log(mean) - variance / 2, math.sqrt(variance), is_varied=is_varied)


def logarithm(values: torch.Tensor) -> tuple[float, float]:
    """Mean and deviation of the logarithm."""
    logs = values.log()
    return float(logs.mean()), float(logs.std(correction=0))


def is_near(ones: torch.Tensor) -> bool:
    """Whether all of these are about one."""
    return bool(((ones - 1).abs() < 1e-3).all())


def is_causal(tensor: torch.Tensor) -> bool:
    """Whether just what lies above the diagonal is minus infinity."""
    if tensor.ndim < 2:
        return False
    hidden = tensor.detach() == -math.inf
    return bool((hidden == torch.ones(tensor.shape[-2:], dtype=torch.bool).triu(1)).all())


def linear(drawn: str, centre: float, spread: float) -> str:
    """`torch.randn(64, 32) * 0.5 + 2`."""
    by = "" if short(spread) == "1" else f" * {short(spread)}"
    about = "" if abs(centre) < NEGLIGIBLE * spread else f" {'+' if centre > 0 else '-'} {short(abs(centre))}"
    return f"{drawn}{by}{about}"


def short(value: float) -> str:
    """Three digits are enough of a likeness."""
    return f"{value:.3g}"
