"""What a candidate must define: the operator's definition and the kernel's declaration, as they follow from the signature."""

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
}
"""By dtype: what the definition calls it, and what the kernel does."""


def described(signature: Signature) -> str:
    """Shown to whoever writes a candidate."""
    given = (*signature.inputs, *signature.params)
    parts = [declaration(signature), "", f"// op_host.cpp: class {OP} : public OpDef has, in this order,"]
    parts += [f'//   Input("{t.name}") {TYPES[t.dtype][0]}{noted(t)}' for t in given]
    parts += [f'//   Attr("{s.name}").{ATTRIBUTES[s.kind]}(), {s.value:g} at bench size' for s in signature.scalars]
    parts += [f'//   Output("{t.name}") {TYPES[t.dtype][0]}{noted(t)}' for t in signature.outputs]
    return "\n".join(parts)


def declaration(signature: Signature) -> str:
    """The kernel's own."""
    names = [t.name for t in (*signature.inputs, *signature.params, *signature.outputs)]
    return f'extern "C" __global__ __aicore__ void {ENTRY}({", ".join(f"GM_ADDR {name}" for name in [*names, "workspace", "tiling"])})'


def noted(tensor: Tensor) -> str:
    """What a tensor is at the size that is timed."""
    return f", [{', '.join(map(str, tensor.shape))}] at bench size" if tensor.shape else ", one element"
