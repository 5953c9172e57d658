"""The C declaration of a kernel's entry point, derived from a task's signature. Each tensor comes with its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from evokernel.core.records import Signature, Tensor

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
"""C types of elements that are the same in every language; `Abi.half_types` adds the others."""
C_SCALAR_TYPES = {"int": "int64_t", "float": "double", "bool": "bool"}


class ArgumentDeclaration(NamedTuple):
    """One argument of the entry point."""

    text: str
    """Its C declaration."""
    comment: str = ""
    """Its role, and its shape or value at bench size."""


class Abi(NamedTuple):
    """How a language declares the entry point."""

    half_types: Mapping[str, str]
    """C types of float16 and bfloat16."""
    has_half_type: bool = True
    """False if half types are integers that hold bit patterns, which comments then mention."""
    last_arguments: tuple[ArgumentDeclaration, ...] = ()
    """Arguments after those of the task."""

    def list_arguments(self, signature: Signature) -> list[ArgumentDeclaration]:
        """Lists every argument in order."""
        types = {**C_TYPES, **self.half_types}
        declarations: list[ArgumentDeclaration] = []

        def declare(prefix: str, role: str, tensor: Tensor) -> None:
            text = f"{prefix}{types[tensor.dtype]}* {tensor.name}"
            declarations.append(ArgumentDeclaration(text, self.tensor_comment(role, tensor)))
            declarations.append(ArgumentDeclaration(f"const int64_t* {tensor.name}_shape"))

        for tensor in (*signature.inputs, *signature.params):
            declare("const ", "input" if tensor in signature.inputs else "parameter", tensor)
        for scalar in signature.scalars:
            text = f"{C_SCALAR_TYPES[scalar.kind]} {scalar.name}"
            declarations.append(ArgumentDeclaration(text, f"{scalar.value:g} at bench size"))
        for tensor in signature.outputs:
            declare("", "output", tensor)
        return [*declarations, *self.last_arguments]

    def tensor_comment(self, role: str, tensor: Tensor) -> str:
        """Describes role, element type and shape of a tensor in a comment."""
        shape = ", ".join(map(str, tensor.shape))
        is_bits = tensor.dtype in self.half_types and not self.has_half_type
        elements = f"({tensor.dtype} bit patterns)" if is_bits else tensor.dtype
        return f"{role}: {elements} [{shape}] at bench size" if tensor.shape else f"{role}: {elements}, one element"

    def c_prototype(self, signature: Signature) -> str:
        """Returns the prototype in one line, as the harness header declares it."""
        return f'extern "C" void kernel({", ".join(argument.text for argument in self.list_arguments(signature))})'

    def annotated_prototype(self, signature: Signature) -> str:
        """Returns the prototype for a prompt: one argument per line, with a comment where one helps."""
        declarations = self.list_arguments(signature)
        endings = [","] * (len(declarations) - 1) + [""]
        lines = [
            f"    {argument.text}{ending}" + (f"  // {argument.comment}" if argument.comment else "")
            for argument, ending in zip(declarations, endings, strict=True)
        ]
        return 'extern "C" void kernel(\n' + "\n".join(lines) + "\n);"

    def harness_header(self, signature: Signature, includes: str) -> str:
        """Returns the header that is included before the candidate's first line."""
        return f'#pragma once\n{includes}{self.c_prototype(signature)} __attribute__((visibility("default")));\n'


def include_lines(headers: tuple[str, ...]) -> str:
    """Returns the `#include` lines of headers."""
    return "".join(f"#include <{name}>\n" for name in headers)
