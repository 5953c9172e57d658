"""The launch function that a candidate must define, derived from a task's signature."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor


def annotated_launch_function(signature: Signature) -> str:
    """Returns the declaration for a prompt: one argument per line, with a comment."""
    lines = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        lines.append(f"    {tensor.name},  # {tensor_comment(role, tensor)}")
    lines += [f"    {scalar.name},  # {scalar.kind}, {scalar.value:g} at bench size" for scalar in signature.scalars]
    lines += [f"    {tensor.name},  # {tensor_comment('output', tensor)}" for tensor in signature.outputs]
    return (
        "def kernel(  # tensors are on the device, row-major; launches @triton.jit functions, returns nothing\n" + "\n".join(lines) + "\n):"
    )


def tensor_comment(role: str, tensor: Tensor) -> str:
    """Describes role, element type and shape of a tensor."""
    shape = ", ".join(map(str, tensor.shape))
    return f"{role}: {tensor.dtype} [{shape}] at bench size" if tensor.shape else f"{role}: {tensor.dtype}, one element"
