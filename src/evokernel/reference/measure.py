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
    shapes_only = measure_shapes(source, name, overrides)
    if shapes_only is not None and (shapes_only.work.bytes > MAX_BYTES or shapes_only.work.flops > MAX_FLOPS):
        return shapes_only
    return run_and_measure(source, name, overrides, with_values=True)


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
