"""The C declaration of the kernel's entry point, derived from a task's signature."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor

HEADERS = ("cstdint", "cstddef", "cmath", "cstring", "algorithm")
"""Headers that are included before the candidate's first line."""
TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
C_SCALAR_TYPES = {"int": "int64_t", "float": "double", "bool": "bool"}


def list_arguments(signature: Signature) -> list[tuple[str, str]]:
    """Lists every argument in order: its C declaration, and a comment on its shape or value at bench size."""
    declarations = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        declarations += [
            (f"const {TYPES[tensor.dtype]}* {tensor.name}", tensor_comment(role, tensor)),
            (f"const int64_t* {tensor.name}_shape", ""),
        ]
    declarations += [(f"{C_SCALAR_TYPES[s.kind]} {s.name}", f"{s.value:g} at bench size") for s in signature.scalars]
    for tensor in signature.outputs:
        declarations += [
            (f"{TYPES[tensor.dtype]}* {tensor.name}", tensor_comment("output", tensor)),
            (f"const int64_t* {tensor.name}_shape", ""),
        ]
    return declarations


def tensor_comment(role: str, tensor: Tensor) -> str:
    """Describes role, element type and shape of a tensor in a comment."""
    shape = ", ".join(map(str, tensor.shape))
    half = f" ({tensor.dtype} bit patterns)" if tensor.dtype in ("float16", "bfloat16") else f" {tensor.dtype}"
    return f"{role}:{half} [{shape}] at bench size" if tensor.shape else f"{role}:{half}, one element"


def c_prototype(signature: Signature) -> str:
    """Returns the prototype in one line, as the harness header declares it."""
    return f'extern "C" void kernel({", ".join(text for text, _ in list_arguments(signature))})'


def annotated_prototype(signature: Signature) -> str:
    """Returns the prototype for a prompt: one argument per line, with a comment where one helps."""
    declarations = list_arguments(signature)
    lines = []
    for index, (text, comment) in enumerate(declarations):
        ending = "," if index + 1 < len(declarations) else ""
        lines.append(f"    {text}{ending}" + (f"  // {comment}" if comment else ""))
    return 'extern "C" void kernel(\n' + "\n".join(lines) + "\n);"


def standard_includes() -> str:
    """Returns the `#include` lines that precede every kernel."""
    return "".join(f"#include <{name}>\n" for name in HEADERS)


def harness_header(signature: Signature) -> str:
    """Returns the header that is included before the candidate's first line."""
    return f'#pragma once\n{standard_includes()}{c_prototype(signature)} __attribute__((visibility("default")));\n'
