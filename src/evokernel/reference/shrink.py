"""A task at bench size with fewer rows: what one number of the output is made of stays as it is, and the machine can hold it."""

from __future__ import annotations

import ast

from evokernel.core.records import Signature, Tensor
from evokernel.reference.constants import constants
from evokernel.reference.measure import imagine

FLOPS, BYTES = 4e9, 1 << 27
"""Beyond either, rows are left out as long as there are any."""
MOST_FLOPS, MOST_BYTES = 1e11, 1 << 31
"""Beyond either, a look at a task would take more than a minute, or more than its share of a machine."""


def narrowed(source: str, name: str, *, sums: bool = False) -> dict[str, int] | None:
    """Overrides under which the reference can be looked at, none where bench itself can; None when it is too large even with few rows.

    Needs a reference whose shapes can be followed without values. `sums` leaves out rows that are added up as well, as those of a loss.
    """
    now: dict[str, int] = {}
    here = imagine(source, name, now)
    if here is None:
        return {}  # it was run to be described, so it can be run
    keys = constants(ast.parse(source))
    while here.work.peak_bytes > BYTES or here.work.flops > FLOPS:
        for key, value in sorted({**keys, **now}.items(), key=lambda item: -item[1]):
            fewer = {**now, key: max(1, value // 2)}
            there = imagine(source, name, fewer) if value > 1 else None
            if there is not None and fewer_rows(here.signature, there.signature, sums=sums):
                now, here = fewer, there
                break
        else:
            break
    return now if here.work.peak_bytes <= MOST_BYTES and here.work.flops <= MOST_FLOPS else None


def fewer_rows(some: Signature, others: Signature, *, sums: bool) -> bool:
    """Whether inputs and outputs differ in their first axis alone, every output does unless `sums`, and parameters not at all."""
    given, taken = (*some.inputs, *some.outputs), (*others.inputs, *others.outputs)
    shapes = [tensor.shape for tensor in some.params] == [tensor.shape for tensor in others.params]
    if not sums and any(a.shape == b.shape for a, b in zip(some.outputs, others.outputs)):
        return False
    return shapes and len(given) == len(taken) and given != taken and all(same_rows(a, b) for a, b in zip(given, taken))


def same_rows(one: Tensor, other: Tensor) -> bool:
    """Whether two shapes are alike but for the number of rows."""
    return len(one.shape) == len(other.shape) and one.shape[1:] == other.shape[1:]
