"""The C declaration a signature stands for."""

from __future__ import annotations

from evokernel.core.records import Signature, Tensor

HEADERS = ("cstdint", "cstddef", "cmath", "cstring", "algorithm")
"""Included before the candidate's first line."""
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
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}


def arguments(signature: Signature) -> list[tuple[str, str]]:
    """Every argument in order: its C declaration, and what it is at bench size."""
    found = []
    for tensor in (*signature.inputs, *signature.params):
        role = "input" if tensor in signature.inputs else "parameter"
        found += [(f"const {TYPES[tensor.dtype]}* {tensor.name}", note(role, tensor)), (f"const int64_t* {tensor.name}_shape", "")]
    found += [(f"{SCALARS[s.kind]} {s.name}", f"{s.value:g} at bench size") for s in signature.scalars]
    for tensor in signature.outputs:
        found += [(f"{TYPES[tensor.dtype]}* {tensor.name}", note("output", tensor)), (f"const int64_t* {tensor.name}_shape", "")]
    return found


def note(role: str, tensor: Tensor) -> str:
    """Role, element type and shape of a tensor, for a reader."""
    shape = ", ".join(map(str, tensor.shape))
    half = f" ({tensor.dtype} bit patterns)" if tensor.dtype in ("float16", "bfloat16") else f" {tensor.dtype}"
    return f"{role}:{half} [{shape}] at bench size" if tensor.shape else f"{role}:{half}, one element"


def declaration(signature: Signature) -> str:
    """The prototype in one line, as the harness header declares it."""
    return f'extern "C" void kernel({", ".join(text for text, _ in arguments(signature))})'


def described(signature: Signature) -> str:
    """The prototype as a candidate's writer is shown it: one argument per line, with a comment where one helps."""
    listed = arguments(signature)
    lines = []
    for index, (text, comment) in enumerate(listed):
        ending = "," if index + 1 < len(listed) else ""
        lines.append(f"    {text}{ending}" + (f"  // {comment}" if comment else ""))
    return 'extern "C" void kernel(\n' + "\n".join(lines) + "\n);"


def includes() -> str:
    """What every kernel has included, as lines of a header."""
    return "".join(f"#include <{name}>\n" for name in HEADERS)


def harness(signature: Signature) -> str:
    """The header that is included before the candidate's first line."""
    return f'#pragma once\n{includes()}{declaration(signature)} __attribute__((visibility("default")));\n'
