"""A further size that nobody can have known: small, ragged, drawn in secret, and one the reference can do with."""

from __future__ import annotations

import warnings
from random import Random
from typing import TYPE_CHECKING

from evokernel.core.errors import UserError
from evokernel.core.records import Task

if TYPE_CHECKING:
    from evokernel.reference.module import Reference

ELEMENTS, TRIES = 1 << 17, 3
ONE_IN = 3
"""In one size out of so many, one constant is tried as 1."""


def odd_size(task: Task, chance: Random) -> dict[str, int] | None:
    """Overrides of the task's constants; None when none but the known sizes work."""
    start = task.sizes.get("held_out", {})
    small = task.sizes.get("small", {})
    known = [start, small, task.sizes.get("bench", {})]
    keys = sorted(key for key in {*start, *small} if len({size.get(key) for size in known}) > 1)
    chance.shuffle(keys)
    kept = dict(start)
    if keys and chance.randrange(ONE_IN) == 0 and works(task, kept | {keys[0]: 1}):
        kept[keys.pop(0)] = 1
    for key in keys:
        middle = start.get(key) or small[key]
        for _ in range(TRIES):
            value = chance.randint(max(2, middle // 2), max(3, middle + middle // 2)) | 1
            if value != kept.get(key) and works(task, kept | {key: value}):
                kept[key] = value
                break
    return kept if kept not in known else None


def works(task: Task, overrides: dict[str, int]) -> bool:
    """Whether the reference gives numbers at a size, in tensors as the signature says, and not too many."""
    from evokernel.reference.arrays import dtype_name
    from evokernel.reference.module import Reference

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a size nobody asked for
            reference: Reference = Reference(task.source, task.id, overrides)
            sample = reference.sample(0)
            outputs = reference.run(sample)
    except UserError:
        return False
    signature = task.signature
    tensors = [named.tensor for named in (*sample.inputs, *sample.params, *outputs)]
    said = [(tensor.dtype, len(tensor.shape)) for tensor in (*signature.inputs, *signature.params, *signature.outputs)]
    if said != [(dtype_name(tensor), tensor.ndim) for tensor in tensors] or any(tensor.numel() == 0 for tensor in tensors):
        return False
    finite = "non-finite" in task.tags or all(bool(tensor.isfinite().all()) for _, tensor in outputs)
    return finite and sum(tensor.numel() for tensor in tensors) <= ELEMENTS
