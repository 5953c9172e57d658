"""What one size of a task looks like; sizes too large to run for the asking are followed in shapes only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch

from evokernel.core.errors import UserError
from evokernel.core.records import Signature, Work
from evokernel.reference.module import Named, Reference
from evokernel.reference.signature import signature
from evokernel.reference.work import counted

BYTES = 1 << 26
FLOPS = 1 << 32
"""Beyond either, a task is not run just to be described."""


class Measure(NamedTuple):
    """A size of a task."""

    signature: Signature
    work: Work
    finite: bool | None
    """Whether all outputs are; None when only shapes were followed."""


class Glimpse(NamedTuple):
    """A size of a task without its work, which takes longer to count than small sizes take to run."""

    signature: Signature
    finite: bool | None


def measure(source: str, name: str, overrides: Mapping[str, int]) -> Measure:
    """Runs the reference at a size when its shapes say that it will not take long."""
    imagined = imagine(source, name, overrides)
    if imagined is not None and (imagined.work.bytes > BYTES or imagined.work.flops > FLOPS):
        return imagined
    return run(source, name, overrides, real=True)


def imagine(source: str, name: str, overrides: Mapping[str, int]) -> Measure | None:
    """Follows shapes without values; None when the reference needs values, or does not work."""
    try:
        with torch.device("meta"):
            return run(source, name, overrides, real=False)
    except UserError:
        return None


def run(source: str, name: str, overrides: Mapping[str, int], *, real: bool) -> Measure:
    """One call of the reference and what it shows."""
    reference = Reference(source, name, overrides)
    sample = reference.sample(0)
    work, outputs = counted(reference, sample)
    return Measure(signature(sample, outputs), work, is_finite(outputs) if real else None)


def glimpse(source: str, name: str, overrides: Mapping[str, int], *, real: bool) -> Glimpse:
    """One call of the reference, in shapes only unless `real`."""
    reference = Reference(source, name, overrides)
    with torch.device("cpu" if real else "meta"):
        sample = reference.sample(0)
        outputs = reference.run(sample)
    return Glimpse(signature(sample, outputs), is_finite(outputs) if real else None)


def is_finite(outputs: tuple[Named, ...]) -> bool:
    """Whether no output holds an infinity or NaN."""
    return all(bool(torch.isfinite(tensor).all()) for _, tensor in outputs)
