"""Text that kernels in C++ and CUDA share: numbers over the kernel's arguments, types, and parameters of functions."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.core.records import Signature
from evokernel.generators.template_search.dialects.literals import format_number
from evokernel.generators.template_search.graph import Node, Num
from evokernel.generators.template_search.kernel_template import PatternDescription

TYPES = {"float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "int8": "int8_t",
         "uint8": "uint8_t", "bool": "bool"}  # fmt: skip
"""Element types that have a name in C++; 16-bit floats have another one in every language."""
SCALARS = {"int": "int64_t", "float": "double", "bool": "bool"}
NUMBERS = {
    "extent": "in_{0}_shape[{1}]",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} / ({1}))", "div": "(double({0}) / double({1}))",
    "sqrt": "std::sqrt(double({0}))", "rsqrt": "(1.0 / std::sqrt(double({0})))", "reciprocal": "(1.0 / double({0}))",
    "log": "std::log(double({0}))",
}  # fmt: skip


def format_num(num: Num) -> str:
    """A number as a C++ expression over the kernel's arguments."""
    return format_number(num, NUMBERS, format_literal)


def format_literal(value: float, integer: bool = False) -> str:
    """A C++ literal."""
    if integer:
        return str(int(value))
    if value - value != 0:
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def is_condition(node: Node) -> bool:
    """Whether the text of a value is the result of a comparison, not a number."""
    return node.dtype == "bool" and node.op not in ("leaf", "cast")


def entry_parameters(signature: Signature, types: Mapping[str, str]) -> list[str]:
    """The parameters of the entry point: tensors with their shapes, scalars, outputs."""
    parameters = [f"const {types[t.dtype]}* in_{t.name}, const int64_t* in_{t.name}_shape" for t in (*signature.inputs, *signature.params)]
    parameters += [f"{SCALARS[s.kind]} arg_{s.name}" for s in signature.scalars]
    return parameters + [f"{types[o.dtype]}* {o.name}, const int64_t* {o.name}_shape" for o in signature.outputs]


def stage_parameters(
    description: PatternDescription, out_dtype: str, types: Mapping[str, str], mark: str, size: str = "int64_t"
) -> list[str]:
    """The parameters of a stage's function: its arguments and `out`; `mark` follows pointers, `size` is the type of integers."""
    parameters = []
    for argument in description.arguments:
        if isinstance(argument.value, Num):
            parameters.append(f"{size if argument.value.is_integer else 'float'} {argument.name}")
        else:
            parameters.append(f"const {types[argument.value.dtype]}*{mark} {argument.name}")
    return [*parameters, f"{types[out_dtype]}*{mark} out"]
