"""Derives the signature of a kernel from one sample and its outputs."""

from __future__ import annotations

from collections.abc import Iterable

from evokernel.core.records import Signature, Tensor
from evokernel.reference.arrays import dtype_name
from evokernel.reference.module import NamedTensor, Sample


def make_signature(sample: Sample, outputs: Iterable[NamedTensor]) -> Signature:
    """Return names, dtypes and shapes of inputs, parameters, buffers, scalars and outputs at the sample's size."""
    return Signature(
        inputs=describe_tensors(sample.inputs),
        params=describe_tensors(sample.params),
        scalars=sample.scalars,
        outputs=describe_tensors(outputs),
    )


def describe_tensors(named: Iterable[NamedTensor]) -> tuple[Tensor, ...]:
    """Return name, dtype and shape of each tensor."""
    return tuple(Tensor(name=name, dtype=dtype_name(tensor), shape=tuple(tensor.shape)) for name, tensor in named)
