"""The C declaration a signature stands for: tensors in device memory with their shapes on the host, numbers, then the stream."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor

HEADERS = ("cstdint", "cstddef", "cuda_runtime.h")
"""Included before the candidate's first line."""
HALVES = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
"""And these, where tensors are of such a type: they take longer to read than a kernel to compile."""
TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}


def arguments(signature: Signature) -> list[tuple[str, str]]:
    """Every argument in order: its declaration, and what it is at bench size."""
    found = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        found += [(f"const {TYPES[tensor.dtype]}* {tensor.name}", note(role, tensor)), (f"const int64_t* {tensor.name}_shape", "")]
    found += [(f"{SCALARS[s.kind]} {s.name}", f"{s.value:g} at bench size") for s in signature.scalars]
    for tensor in signature.outputs:
        found += [(f"{TYPES[tensor.dtype]}* {tensor.name}", note("output", tensor)), (f"const int64_t* {tensor.name}_shape", "")]
    return [*found, ("cudaStream_t stream", "launch everything on this one")]


def note(role: str, tensor: Tensor) -> str:
    """Role, element type and shape of a tensor, for a reader."""
    shape = ", ".join(map(str, tensor.shape))
    return f"{role}: {tensor.dtype} [{shape}] at bench size" if tensor.shape else f"{role}: {tensor.dtype}, one element"


def declaration(signature: Signature) -> str:
    """The prototype in one line, as the harness header declares it."""
    return f'extern "C" void kernel({", ".join(text for text, _ in arguments(signature))})'


def described(signature: Signature) -> str:
    """The prototype as a candidate's writer is shown it: one argument per line, with a comment where one helps."""
    listed = arguments(signature)
    lines = ["// tensors are in device memory, row-major; shapes are on the host"]
    for index, (text, comment) in enumerate(listed):
        ending = "," if index + 1 < len(listed) else ""
        lines.append(f"    {text}{ending}" + (f"  // {comment}" if comment else ""))
    return lines[0] + '\nextern "C" void kernel(\n' + "\n".join(lines[1:]) + "\n);"


def harness(signature: Signature) -> str:
    """The header that is included before the candidate's first line."""
    dtypes = {tensor.dtype for tensor in (*signature.inputs, *signature.params, *signature.outputs)}
    included = "".join(f"#include <{name}>\n" for name in (*HEADERS, *(HALVES[dtype] for dtype in sorted(dtypes & HALVES.keys()))))
    return f'#pragma once\n{included}{declaration(signature)} __attribute__((visibility("default")));\n'
