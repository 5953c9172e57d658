"""Compares outputs with the reference on the device where they are: every element, chunk by chunk, so that little memory is needed.

The rules are those of the comparison on the host (docs/adr/0017-errors-are-measured-against-the-references-own.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch

from evokernel.core.numeric_contract import (
    FLUSHED_DTYPES,
    MAX_JUMP_OVERSHOOT,
    MAX_JUMP_SHARE,
    MIN_JUMP_COUNT,
    SMALLEST_NORMAL,
    ToleranceRule,
)
from evokernel.core.output_difference import NEAR_MISS_SHARE, SHOWN_ELEMENTS, OutputDifference, WrongElement, find_range, guess_cause
from evokernel.reference.arrays import dtype_name

CHUNK_ELEMENTS = 1 << 25
"""Elements that are compared at once; each needs about 60 bytes."""
QUANTILE_ELEMENTS = 1 << 22
"""Elements that a quantile is computed from."""
UNWRITTEN_BYTE = 0xFF
"""Every byte of an output before a call."""


class ExpectedTensor:
    """An output of the reference with its tolerance for every element; integers must match exactly."""

    def __init__(self, name: str, own: torch.Tensor, wide: torch.Tensor | None, rule: ToleranceRule) -> None:
        self.name, self.own, self.wide, self.rule = name, own, wide, rule
        self.target = own if wide is None or not own.is_floating_point() else wide
        self.rms = compute_rms(self.target) if own.is_floating_point() else 0.0

    def find_wrong_elements(self, actual: torch.Tensor) -> torch.Tensor:
        """Return a flat mask of wrong elements; NaN and infinities must be where the reference has them."""
        mask = torch.empty(actual.numel(), dtype=torch.bool, device=actual.device)
        for part in list_chunks(actual.numel()):
            mask[part] = self.compare_chunk(actual.view(-1)[part], part)
        return mask

    def compare_chunk(self, actual: torch.Tensor, part: slice) -> torch.Tensor:
        """Return the mask of wrong elements in a part of the output."""
        if not actual.is_floating_point():
            return view_bits(actual) != view_bits(self.own.view(-1)[part])
        values, target = decode(actual), decode(self.target.view(-1)[part])
        allowed = self.compute_allowed_error(part)
        mask = ~((values - target).abs() <= allowed)
        mask |= torch.isinf(allowed) & (values != target)  # an infinite tolerance would accept any value
        return mask & ~((values == target) | (values.isnan() & target.isnan()))

    def compute_allowed_error(self, part: slice | torch.Tensor) -> torch.Tensor:
        """Return the allowed absolute error of some elements."""
        rule, target = self.rule, decode(self.target.view(-1)[part])
        size = target.abs()
        allowed = size * rule.rtol + rule.atol * (self.rms if rule.atol_unit is None else rule.atol_unit)
        if self.wide is not None:
            allowed = allowed + (decode(self.own.view(-1)[part]) - target).abs()
        if rule.error_share is None:
            return allowed
        share = (size + self.rms) * rule.error_share
        allowed = torch.minimum(share, allowed) if rule.combine == "min" else torch.maximum(share, allowed)
        return allowed.clamp(min=SMALLEST_NORMAL) if dtype_name(self.own) in FLUSHED_DTYPES else allowed

    def exclude_jumps(self, mask: torch.Tensor, actual: torch.Tensor, moved_outputs: Iterable[torch.Tensor]) -> torch.Tensor:
        """Clear wrong elements that are explained by a jump of the operator within the rounding error of its inputs."""
        count = int(mask.sum())
        if not count or count > max(MIN_JUMP_COUNT, MAX_JUMP_SHARE * mask.numel()):
            return mask
        places = mask.nonzero().view(-1)
        values = decode(actual.view(-1)[places]).double()
        allowed = self.compute_allowed_error(places).double() if actual.is_floating_point() else torch.zeros_like(values)
        low = high = decode(self.own.view(-1)[places]).double()
        is_wrong = torch.ones_like(places, dtype=torch.bool)
        for output in chain([] if self.wide is None else [self.wide], moved_outputs):
            moved = decode(output.reshape(-1)[places]).double()
            low, high = torch.minimum(low, moved), torch.maximum(high, moved)
            if actual.is_floating_point():
                margin = allowed + MAX_JUMP_OVERSHOOT * (high - low)
                is_wrong &= ~((high - low > allowed) & (low - margin <= values) & (values <= high + margin))
            else:
                is_wrong &= ~((low <= values) & (values <= high))
            if not bool(is_wrong.any()):
                break
        remaining = torch.zeros_like(mask)
        remaining[places[is_wrong]] = True
        return remaining

    def describe(self, mask: torch.Tensor, actual: torch.Tensor) -> OutputDifference:
        """Return the numbers that a message about a wrong output needs."""
        shape = tuple(self.own.shape)
        counts = count_by_axis(mask.view(shape))
        findings = [self.describe_chunk(mask[part], actual.view(-1)[part], part) for part in list_chunks(mask.numel()) if mask[part].any()]
        worst = max((one for one in findings if one.worst_place >= 0), key=lambda one: one.worst_gap, default=None)
        first = [place for one in findings for place in one.first][:SHOWN_ELEMENTS]
        return OutputDifference(
            self.name,
            shape,
            sum(one.wrong for one in findings),
            sum(one.unwritten for one in findings),
            sum(one.nan for one in findings),
            tuple(find_range(one) for one in counts),
            self.describe_element(actual, worst.worst_place) if worst else None,
            tuple(self.describe_element(actual, place) for place in first),
            actual.is_floating_point() and all(one.is_near for one in findings),
            guess_cause(shape, counts),
        )

    def describe_chunk(self, mask: torch.Tensor, actual: torch.Tensor, part: slice) -> ChunkFindings:
        """Count the wrong elements of a part, by what is wrong with them."""
        places = mask.nonzero().view(-1)
        stored, target = actual[places], decode(self.target.view(-1)[part][places]).double()
        is_unwritten = (stored.view(-1, 1).view(torch.uint8) == UNWRITTEN_BYTE).all(-1)
        values = decode(stored).double()
        gap = (values - target).abs()
        is_finite = torch.isfinite(gap)
        is_nan = values.isnan() & ~is_unwritten if actual.is_floating_point() else torch.zeros_like(is_unwritten)
        is_near = bool((gap <= NEAR_MISS_SHARE * (target.abs() + self.rms)).all())
        worst = int(torch.where(is_finite, gap, -1.0).argmax())
        has_worst = bool(is_finite.any())
        return ChunkFindings(
            len(places),
            int(is_unwritten.sum()),
            int(is_nan.sum()),
            part.start + int(places[worst]) if has_worst else -1,
            float(gap[worst]) if has_worst else 0.0,
            [part.start + int(place) for place in places[:SHOWN_ELEMENTS]],
            is_near,
        )

    def describe_element(self, actual: torch.Tensor, place: int) -> WrongElement:
        """Return an element by its flat index."""
        index, rest = [], place
        for size in reversed(self.own.shape):
            index.append(rest % size)
            rest //= size
        return WrongElement(tuple(reversed(index)), format_element(self.target.view(-1)[place]), format_element(actual.view(-1)[place]))


class ChunkFindings(NamedTuple):
    """What is wrong in a part of an output."""

    wrong: int
    unwritten: int
    nan: int
    worst_place: int
    """Flat index of the element with the largest finite error; -1 if no error is finite."""
    worst_gap: float
    first: list[int]
    is_near: bool


def list_chunks(count: int) -> Iterator[slice]:
    """Cut a number of elements into chunks."""
    return (slice(start, min(start + CHUNK_ELEMENTS, count)) for start in range(0, count, CHUNK_ELEMENTS))


def decode(values: torch.Tensor) -> torch.Tensor:
    """Convert half precisions to float32, and booleans to the numbers of their bytes."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return values.float()
    return values.view(torch.uint8) if values.dtype == torch.bool else values


def view_bits(values: torch.Tensor) -> torch.Tensor:
    """Return integers that are equal if and only if the elements are."""
    return values.view(torch.uint8) if values.dtype == torch.bool else values


def compute_rms(values: torch.Tensor) -> float:
    """Return the root mean square of the finite elements."""
    total = torch.zeros((), dtype=torch.float64, device=values.device)
    count = torch.zeros((), dtype=torch.int64, device=values.device)
    for part in list_chunks(values.numel()):
        chunk = decode(values.view(-1)[part]).double()
        squares = chunk.square()
        is_finite = torch.isfinite(squares)
        total += torch.where(is_finite, squares, 0.0).sum()
        count += is_finite.sum()
    return float((total / count).sqrt()) if int(count) else 0.0


def is_all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether all floating-point tensors are finite."""
    return all(
        bool(torch.isfinite(tensor.view(-1)[part]).all())
        for tensor in tensors
        if tensor.is_floating_point()
        for part in list_chunks(tensor.numel())
    )


def have_same_nonfinite(own: torch.Tensor, wide: torch.Tensor) -> bool:
    """Whether infinities and NaN are at the same places in both."""
    for part in list_chunks(own.numel()):
        one, other = decode(own.view(-1)[part]).double(), wide.view(-1)[part].double()
        is_same = (one == other) | (one.isnan() & other.isnan())
        if not bool((torch.where(one.isfinite(), other.isfinite(), is_same)).all()):
            return False
    return True


def measure_reference_error(own: torch.Tensor, wide: torch.Tensor | None, moved: torch.Tensor | None) -> float:
    """Return the reference's error in its own type, in units of (|truth| + rms), without the few elements where the operator may jump."""
    target = own if wide is None else wide
    rms, errors = compute_rms(target), [0.0]
    if wide is not None:
        largest, sampled = measure_relative_gaps(own, wide, target, rms)
        errors.append(min(largest, 4 * float(sampled.quantile(0.99))) if sampled.numel() else 0.0)
    if moved is not None:
        _, sampled = measure_relative_gaps(own, moved, target, rms)
        errors.append(float(sampled.quantile(0.9)) if sampled.numel() else 0.0)
    return max(errors)


def measure_relative_gaps(one: torch.Tensor, other: torch.Tensor, target: torch.Tensor, rms: float) -> tuple[float, torch.Tensor]:
    """Return the largest gap of two outputs in units of (|target| + rms), and a sample of the gaps of single elements."""
    largest, samples = 0.0, []
    step = max(1, -(-one.numel() // QUANTILE_ELEMENTS))
    for part in list_chunks(one.numel()):
        size = decode(target.view(-1)[part]).double().abs() + rms
        gap = ((decode(one.view(-1)[part]).double() - decode(other.view(-1)[part]).double()).abs() / size).nan_to_num(nan=0.0)
        largest = max(largest, float(gap.max()))
        samples.append(gap[::step].clone())
    return largest, torch.cat(samples) if samples else torch.empty(0)


def count_by_axis(mask: torch.Tensor) -> list[np.ndarray]:
    """Return, for each dimension, the number of wrong elements at each of its indices."""
    axes = range(mask.ndim)
    sums = (mask.sum(dim=[other for other in axes if other != axis]) if mask.ndim > 1 else mask.long() for axis in axes)
    return [one.cpu().numpy() for one in sums]


def format_element(value: torch.Tensor) -> str:
    """Format a value briefly, with enough digits to show a difference."""
    return f"{float(value):.7g}" if value.is_floating_point() else str(int(decode(value)))
