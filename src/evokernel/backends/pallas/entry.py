"""The Python function a signature stands for."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.records import Signature, Tensor

NARROWED = {"int64": "int32", "float64": "float32"}
"""What a TPU does not have comes and goes as what it has."""


def jax_dtype(dtype: str) -> str:
    """The element type a kernel sees for one of a signature."""
    return NARROWED.get(dtype, dtype)


def described(signature: Signature) -> str:
    """The definition as a candidate's writer is shown it: one argument per line, with a comment."""
    lines = [f"    {tensor.name},  # input: {note(tensor)}" for tensor in signature.inputs]
    lines += [f"    {tensor.name},  # parameter: {note(tensor)}" for tensor in signature.params]
    lines += [f"    {number.name},  # a Python {number.kind}: {number.value:g} at bench size" for number in signature.scalars]
    return "def kernel(\n" + "\n".join(lines) + f"\n):\n    ...\n    return {returned(signature.outputs)}"


def returned(outputs: Sequence[Tensor]) -> str:
    """What is to be returned."""
    names = ", ".join(tensor.name for tensor in outputs)
    return f"{names}  # " + "; ".join(f"{tensor.name}: {note(tensor)}" if len(outputs) > 1 else note(tensor) for tensor in outputs)


def note(tensor: Tensor) -> str:
    """Element type and shape, for a reader."""
    return f"{jax_dtype(tensor.dtype)} [{', '.join(map(str, tensor.shape))}] at bench size"
