"""Measures one size of a task: signature, work, finiteness. For large sizes it computes shapes only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from evokernel.core.errors import UserError
from evokernel.core.records import Signature, Work
from evokernel.reference.module import NamedTensor, Reference
from evokernel.reference.signature import make_signature
from evokernel.reference.size_guard import SizeGuard
from evokernel.reference.work import count_work

MAX_BYTES = 1 << 26
MAX_FLOPS = 1 << 32
"""Above either, describing a task does not run it."""


class SizeMeasurement(NamedTuple):
    """Signature and work of a task at one size."""

    signature: Signature
    work: Work
    finite: bool | None
    """Whether all outputs are finite; None if only shapes were computed."""


class SizeProbe(NamedTuple):
    """Signature of a task at one size, without its work: counting work takes longer than running a small size."""

    signature: Signature
    finite: bool | None
    """Whether all outputs are finite; None if only shapes were computed."""


def measure_size(source: str, name: str, overrides: Mapping[str, int]) -> SizeMeasurement:
    """Measure a size by running the reference, or from shapes only if it is large."""
    measurement = measure_if_small(source, name, overrides)
    if measurement is not None:
        return measurement
    shapes_only = measure_shapes(source, name, overrides)
    if shapes_only is not None and is_large(shapes_only.work):
        return shapes_only
    return run_and_measure(source, name, overrides, with_values=True)


def measure_if_small(source: str, name: str, overrides: Mapping[str, int]) -> SizeMeasurement | None:
    """Measure a size by running the reference; None if it raises, is large, or has operators that only shapes can tell to be small."""
    guard = SizeGuard()
    try:
        with guard:
            measurement = run_and_measure(source, name, overrides, with_values=True)
    except UserError:
        return None
    return None if guard.is_exceeded or is_large(measurement.work) else measurement


def is_large(work: Work) -> bool:
    """Return whether describing a task of this size does not run it."""
    return work.bytes > MAX_BYTES or work.flops > MAX_FLOPS


def measure_shapes(source: str, name: str, overrides: Mapping[str, int]) -> SizeMeasurement | None:
    """Measure a size from shapes without values; None if the reference needs values or raises."""
    try:
        with torch.device("meta"):
            return run_and_measure(source, name, overrides, with_values=False)
    except UserError:
        return None


def run_and_measure(source: str, name: str, overrides: Mapping[str, int], *, with_values: bool) -> SizeMeasurement:
    """Call the reference once and count its work."""
    reference = Reference(source, name, overrides)
    sample = reference.sample(0)
    work, outputs = count_work(reference, sample)
    return SizeMeasurement(make_signature(sample, outputs), work, is_finite(outputs) if with_values else None)


def probe_size(source: str, name: str, overrides: Mapping[str, int], *, with_values: bool) -> SizeProbe:
    """Call the reference once and return its signature; with shapes only unless `with_values`.

    Attention runs step by step: fused kernels of PyTorch accept keys and values of different lengths.
    """
    reference = Reference(source, name, overrides)
    with torch.device("cpu" if with_values else "meta"), sdpa_kernel(SDPBackend.MATH):
        sample = reference.sample(0)
        outputs = reference.run(sample)
    return SizeProbe(make_signature(sample, outputs), is_finite(outputs) if with_values else None)


def is_finite(outputs: tuple[NamedTensor, ...]) -> bool:
    """Return whether no output contains an infinity or NaN."""
    return all(bool(torch.isfinite(tensor).all()) for _, tensor in outputs)
