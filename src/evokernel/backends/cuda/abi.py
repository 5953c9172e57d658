"""The C declaration of the launch function, derived from a task's signature: device tensors with host shapes, scalars, the stream."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor

HEADERS = ("cstdint", "cstddef", "cuda_runtime.h")
"""Headers that are included before the candidate's first line."""
HALVES = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
"""Headers for half types, included only if needed, because parsing them takes longer than compiling a kernel."""
C_TYPES = {
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
C_SCALAR_TYPES = {"int": "int64_t", "float": "double", "bool": "bool"}


def list_arguments(signature: Signature) -> list[tuple[str, str]]:
    """Lists every argument in order: its declaration, and a comment on its shape or value at bench size."""
    declarations = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        declarations += [
            (f"const {C_TYPES[tensor.dtype]}* {tensor.name}", tensor_comment(role, tensor)),
            (f"const int64_t* {tensor.name}_shape", ""),
        ]
    declarations += [(f"{C_SCALAR_TYPES[s.kind]} {s.name}", f"{s.value:g} at bench size") for s in signature.scalars]
    for tensor in signature.outputs:
        declarations += [
            (f"{C_TYPES[tensor.dtype]}* {tensor.name}", tensor_comment("output", tensor)),
            (f"const int64_t* {tensor.name}_shape", ""),
        ]
    return [*declarations, ("cudaStream_t stream", "launch every kernel on this stream")]


def tensor_comment(role: str, tensor: Tensor) -> str:
    """Describes role, element type and shape of a tensor in a comment."""
    shape = ", ".join(map(str, tensor.shape))
    return f"{role}: {tensor.dtype} [{shape}] at bench size" if tensor.shape else f"{role}: {tensor.dtype}, one element"


def c_prototype(signature: Signature) -> str:
    """Returns the prototype in one line, as the harness header declares it."""
    return f'extern "C" void kernel({", ".join(text for text, _ in list_arguments(signature))})'


def annotated_prototype(signature: Signature) -> str:
    """Returns the prototype for a prompt: one argument per line, with a comment where one helps."""
    declarations = list_arguments(signature)
    lines = ["// tensors are in device memory, row-major; shapes are on the host"]
    for index, (text, comment) in enumerate(declarations):
        ending = "," if index + 1 < len(declarations) else ""
        lines.append(f"    {text}{ending}" + (f"  // {comment}" if comment else ""))
    return lines[0] + '\nextern "C" void kernel(\n' + "\n".join(lines[1:]) + "\n);"


def harness_header(signature: Signature) -> str:
    """Returns the header that is included before the candidate's first line."""
    dtypes = {tensor.dtype for tensor in (*signature.inputs, *signature.params, *signature.outputs)}
    includes = "".join(f"#include <{name}>\n" for name in (*HEADERS, *(HALVES[dtype] for dtype in sorted(dtypes & HALVES.keys()))))
    return f'#pragma once\n{includes}{c_prototype(signature)} __attribute__((visibility("default")));\n'
