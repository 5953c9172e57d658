"""Draws an additional odd size in secret: small, not a multiple of a block, and valid for the reference."""

from __future__ import annotations

import warnings
from random import Random
from typing import TYPE_CHECKING

from evokernel.core.errors import UserError
from evokernel.core.records import Task

if TYPE_CHECKING:
    from evokernel.reference.module import Reference

MAX_ELEMENTS, DRAWS_PER_CONSTANT = 1 << 17, 3
UNIT_SIZE_ODDS = 3
"""In one of this many sizes, one constant is set to 1."""


def draw_odd_size(task: Task, random: Random) -> dict[str, int] | None:
    """Return overrides of the task's constants, or None if only the known sizes are valid."""
    held_out = task.sizes.get("held_out", {})
    small = task.sizes.get("small", {})
    known_sizes = [held_out, small, task.sizes.get("laptop", task.sizes.get("bench", {}))]
    keys = sorted(key for key in {*held_out, *small} if len({size.get(key) for size in known_sizes}) > 1)
    random.shuffle(keys)
    overrides = dict(held_out)
    # A constant that works as 1 and not as another size is an axis that only broadcasts by accident.
    if (
        keys
        and random.randrange(UNIT_SIZE_ODDS) == 0
        and all(is_usable_size(task, overrides | {keys[0]: value}) for value in (1, (held_out.get(keys[0]) or small[keys[0]]) + 1))
    ):
        overrides[keys.pop(0)] = 1
    for key in keys:
        middle = held_out.get(key) or small[key]
        for _ in range(DRAWS_PER_CONSTANT):
            value = random.randint(max(2, middle // 2), max(3, middle + middle // 2)) | 1
            if value != overrides.get(key) and is_usable_size(task, overrides | {key: value}):
                overrides[key] = value
                break
    return overrides if overrides not in known_sizes else None


def is_usable_size(task: Task, overrides: dict[str, int]) -> bool:
    """Whether the reference gives finite numbers at a size, with the tensors of the signature, and not too many elements."""
    from evokernel.reference.arrays import dtype_name
    from evokernel.reference.module import Reference

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about a size that is only tried
            reference: Reference = Reference(task.source, task.id, overrides)
            sample = reference.sample(0)
            outputs = reference.run(sample)
    except UserError:
        return False
    signature = task.signature
    tensors = [item.tensor for item in (*sample.inputs, *sample.params, *outputs)]
    signature_tensors = [(tensor.dtype, len(tensor.shape)) for tensor in (*signature.inputs, *signature.params, *signature.outputs)]
    if signature_tensors != [(dtype_name(tensor), tensor.ndim) for tensor in tensors] or any(tensor.numel() == 0 for tensor in tensors):
        return False
    is_all_finite = "non-finite" in task.tags or all(bool(tensor.isfinite().all()) for _, tensor in outputs)
    return is_all_finite and sum(tensor.numel() for tensor in tensors) <= MAX_ELEMENTS
