"""The Python function `kernel` that a candidate has to define for a task's signature."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.records import Signature, Tensor

NARROWED_DTYPES = {"int64": "int32", "float64": "float32"}
"""Element types that a TPU does not support, and the types that replace them in inputs and outputs."""


def jax_dtype(dtype: str) -> str:
    """The element type a kernel receives for an element type of a signature."""
    return NARROWED_DTYPES.get(dtype, dtype)


def describe_entry_point(signature: Signature) -> str:
    """The definition that a prompt shows to the generator: one argument per line, with a comment."""
    lines = [f"    {tensor.name},  # input: {describe_tensor(tensor)}" for tensor in signature.inputs]
    lines += [f"    {tensor.name},  # parameter: {describe_tensor(tensor)}" for tensor in signature.params]
    lines += [f"    {number.name},  # a Python {number.kind}: {number.value:g} at bench size" for number in signature.scalars]
    return "def kernel(\n" + "\n".join(lines) + f"\n):\n    ...\n    return {describe_return(signature.outputs)}"


def describe_return(outputs: Sequence[Tensor]) -> str:
    """The returned names, with a comment on types and shapes."""
    names = ", ".join(tensor.name for tensor in outputs)
    return f"{names}  # " + "; ".join(
        f"{tensor.name}: {describe_tensor(tensor)}" if len(outputs) > 1 else describe_tensor(tensor) for tensor in outputs
    )


def describe_tensor(tensor: Tensor) -> str:
    """Element type and shape at bench size, for a comment."""
    return f"{jax_dtype(tensor.dtype)} [{', '.join(map(str, tensor.shape))}] at bench size"
