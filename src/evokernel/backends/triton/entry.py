"""The launch function a signature stands for."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor


def described(signature: Signature) -> str:
    """As a candidate's writer is shown it: one argument per line, with a comment."""
    lines = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        lines.append(f"    {tensor.name},  # {note(role, tensor)}")
    lines += [f"    {scalar.name},  # {scalar.kind}, {scalar.value:g} at bench size" for scalar in signature.scalars]
    lines += [f"    {tensor.name},  # {note('output', tensor)}" for tensor in signature.outputs]
    return (
        "def kernel(  # tensors are on the device, row-major; launches @triton.jit functions, returns nothing\n" + "\n".join(lines) + "\n):"
    )


def note(role: str, tensor: Tensor) -> str:
    """Role, element type and shape of a tensor."""
    shape = ", ".join(map(str, tensor.shape))
    return f"{role}: {tensor.dtype} [{shape}] at bench size" if tensor.shape else f"{role}: {tensor.dtype}, one element"
