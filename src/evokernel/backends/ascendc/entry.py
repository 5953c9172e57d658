"""Describes what a candidate must define: the kernel declaration and the operator definition of a signature."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor

OP, ENTRY = "KernelCustom", "kernel_custom"
ATTRIBUTES = {"int": "Int", "float": "Float", "bool": "Bool"}
TYPES = {
    "float32": ("DT_FLOAT", "float"),
    "float16": ("DT_FLOAT16", "half"),
    "bfloat16": ("DT_BF16", "bfloat16_t"),
    "float64": ("DT_DOUBLE", "double"),
    "int64": ("DT_INT64", "int64_t"),
    "int32": ("DT_INT32", "int32_t"),
    "int16": ("DT_INT16", "int16_t"),
    "int8": ("DT_INT8", "int8_t"),
    "uint8": ("DT_UINT8", "uint8_t"),
    "bool": ("DT_BOOL", "bool"),
    "complex64": ("DT_COMPLEX64", "complex64"),
}
"""By dtype: its name in the OpDef and its C++ type in the kernel."""


def describe_entry_point(signature: Signature) -> str:
    """The declarations of a candidate, as the prompt shows them."""
    tensors = (*signature.inputs, *signature.params)
    parts = [kernel_declaration(signature), "", f"// op_host.cpp: class {OP} : public OpDef declares, in this order:"]
    parts += [f'//   Input("{t.name}") {TYPES[t.dtype][0]}{shape_note(t)}' for t in tensors]
    parts += [f'//   Attr("{s.name}").{ATTRIBUTES[s.kind]}(), {s.value:g} at bench size' for s in signature.scalars]
    parts += [f'//   Output("{t.name}") {TYPES[t.dtype][0]}{shape_note(t)}' for t in signature.outputs]
    return "\n".join(parts)


def kernel_declaration(signature: Signature) -> str:
    """The C++ declaration of the kernel function."""
    names = [t.name for t in (*signature.inputs, *signature.params, *signature.outputs)]
    return f'extern "C" __global__ __aicore__ void {ENTRY}({", ".join(f"GM_ADDR {name}" for name in [*names, "workspace", "tiling"])})'


def shape_note(tensor: Tensor) -> str:
    """The shape of a tensor at bench size, and what its elements are if the kernel has no type for them."""
    shape = f", [{', '.join(map(str, tensor.shape))}] at bench size" if tensor.shape else ", one element"
    return f"{shape}; each element is two floats, real and imaginary part" if tensor.dtype == "complex64" else shape
