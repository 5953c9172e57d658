"""What a kernel is called with, read off one sample and its outputs."""

from __future__ import annotations

from collections.abc import Iterable

from evokernel.core.records import Signature, Tensor
from evokernel.reference.arrays import dtype_name
from evokernel.reference.module import Named, Sample


def signature(sample: Sample, outputs: Iterable[Named]) -> Signature:
    """Inputs, parameters and buffers, scalars, outputs: names, dtypes and shapes at the sample's size."""
    return Signature(inputs=tensors(sample.inputs), params=tensors(sample.params), scalars=sample.scalars, outputs=tensors(outputs))


def tensors(named: Iterable[Named]) -> tuple[Tensor, ...]:
    """Records of tensors, without their values."""
    return tuple(Tensor(name=name, dtype=dtype_name(tensor), shape=tuple(tensor.shape)) for name, tensor in named)
