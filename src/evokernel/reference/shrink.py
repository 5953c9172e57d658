"""Reduces the number of rows of a large task, so that a machine can run it; how each output element is computed stays the same."""

from __future__ import annotations

import ast

from evokernel.core.records import Signature, Tensor
from evokernel.reference.constants import find_constants
from evokernel.reference.measure import measure_shapes

PREFERRED_FLOPS, PREFERRED_BYTES = 4e9, 1 << 27
"""Above either, the number of rows is halved as long as possible."""
MAX_FLOPS, MAX_BYTES = 1e11, 1 << 31
"""Above either, running the task would take more than a minute, or too much memory."""


def shrink_to_fit(source: str, name: str, *, allow_summed_rows: bool = False) -> dict[str, int] | None:
    """Return overrides under which the reference can be run (empty: bench size); None if it is too large even with few rows.

    The shapes of the reference must be computable without values. `allow_summed_rows` also reduces rows that are summed, as in a loss.
    """
    now: dict[str, int] = {}
    here = measure_shapes(source, name, now)
    if here is None:
        return {}  # describing the task ran it, so it can be run
    keys = find_constants(ast.parse(source))
    while here.work.peak_bytes > PREFERRED_BYTES or here.work.flops > PREFERRED_FLOPS:
        for key, value in sorted({**keys, **now}.items(), key=lambda item: -item[1]):
            fewer = {**now, key: max(1, value // 2)}
            there = measure_shapes(source, name, fewer) if value > 1 else None
            if there is not None and differ_in_rows_only(here.signature, there.signature, allow_summed_rows=allow_summed_rows):
                now, here = fewer, there
                break
        else:
            break
    return now if here.work.peak_bytes <= MAX_BYTES and here.work.flops <= MAX_FLOPS else None


def differ_in_rows_only(first: Signature, second: Signature, *, allow_summed_rows: bool) -> bool:
    """Return whether inputs and outputs differ only in their first axis, and parameters do not differ.

    Every output must differ unless `allow_summed_rows`.
    """
    first_tensors, second_tensors = (*first.inputs, *first.outputs), (*second.inputs, *second.outputs)
    shapes = [tensor.shape for tensor in first.params] == [tensor.shape for tensor in second.params]
    if not allow_summed_rows and any(a.shape == b.shape for a, b in zip(first.outputs, second.outputs)):
        return False
    return (
        shapes
        and len(first_tensors) == len(second_tensors)
        and first_tensors != second_tensors
        and all(equal_except_rows(a, b) for a, b in zip(first_tensors, second_tensors))
    )


def equal_except_rows(first: Tensor, second: Tensor) -> bool:
    """Return whether two shapes are equal except for the first axis."""
    return len(first.shape) == len(second.shape) and first.shape[1:] == second.shape[1:]
