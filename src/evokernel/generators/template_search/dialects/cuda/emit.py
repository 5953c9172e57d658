"""Emits elementwise steps as CUDA: one device function per tree of steps, and the helper functions that a kernel calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from evokernel.generators.template_search.dialects import c_text
from evokernel.generators.template_search.dialects.c_text import is_condition
from evokernel.generators.template_search.dialects.steps import StepSyntax, emit_steps, format_step, needs_condition
from evokernel.generators.template_search.graph import Node, Num, walk

TYPES = {**c_text.TYPES, "float16": "__half", "bfloat16": "__nv_bfloat16"}
CALLS = {
    "exp": "expf", "log": "logf", "tanh": "tanhf", "erf": "erff", "sqrt": "sqrtf", "abs": "fabsf", "floor": "floorf", "round": "rintf",
    "sin": "sinf", "cos": "cosf", "pow": "powf", "max": "Max::join", "min": "Min::join", "exponent": "exponent", "power2": "power2",
}  # fmt: skip
FAST_CALLS = {**CALLS, "exp": "__expf", "log": "__logf", "sin": "__sinf", "cos": "__cosf", "pow": "__powf"}
"""Intrinsics that are faster and less exact."""
MAX_FLOAT = 3.4028235e38
HEADERS = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
HELPER_FILE = Path(__file__).parent / "helpers.j2"


@cache
def load_helpers() -> dict[str, str]:
    """Functions and types by name, each after those that it uses."""
    parts = HELPER_FILE.read_text(encoding="utf-8").split("// helper: ")[1:]
    return {name: source.strip() for name, _, source in (part.partition("\n") for part in parts)}


def format_literal(value: float) -> str:
    """A literal in device code."""
    if value != value:
        return "NAN"
    if abs(value) > MAX_FLOAT:
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"{float(value)!r}f" if value >= 0 else f"({float(value)!r}f)"


def emit_function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str], math: str = "") -> str:
    """`name(a, b, ..., s0, ...)` that computes `tree`; `arguments` names the subtrees that are passed in."""
    calls = FAST_CALLS if math == "fast" else CALLS
    syntax = StepSyntax("!{0}", "{0} ? {1} : {2}", format_cast, lambda node, args: f"{calls[node.op]}({', '.join(args)})")

    def format_constant(value: Num) -> str:
        return numbers[value] if value in numbers else format_literal(value.value)

    def format_statement(node: Node, args: list[str], target: str) -> str:
        operands = [as_condition(a, t) if needs_condition(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))]
        return f"    const {'bool' if is_condition(node) else 'float'} {target} = {format_step(node, operands, syntax)};"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement)
    result = result if tree in arguments else as_number(tree, result)
    parameters = ", ".join(f"float {name}" for name in (*arguments.values(), *numbers.values()))
    return "\n".join([f"__device__ __forceinline__ float {name}({parameters}) {{", *lines, f"    return {result};", "}"])


def as_condition(node: Node, text: str) -> str:
    """A value as a condition: a mask from memory is a number, which is compared with zero."""
    return text if is_condition(node) else f"({text} != 0.0f)"


def as_number(node: Node, text: str) -> str:
    """A value as a number: 1 where a condition holds, 0 elsewhere."""
    return f"({text} ? 1.0f : 0.0f)" if is_condition(node) else text


def format_cast(node: Node, arg: str) -> str:
    """A conversion: kernels compute in float and convert when they write."""
    if node.name == "bool":
        return f"{arg} != 0.0f ? 1.0f : 0.0f"
    if "int" in node.name:
        return arg if "int" in node.args[0].dtype or node.args[0].dtype == "bool" else f"truncf({arg})"
    return f"(float)({TYPES[node.name]})({arg})" if node.name in ("float16", "bfloat16") else arg


def has_fast_form(*roots: Node) -> bool:
    """Whether there is an intrinsic for one of the steps."""
    return any(node.op in CALLS and FAST_CALLS[node.op] != CALLS[node.op] for node in walk(*roots))


def list_helpers(text: str) -> list[str]:
    """The helper functions and types that a kernel's text uses, and those that these use."""
    wanted = ""
    for name, source in reversed(load_helpers().items()):
        if re.search(rf"\b{name}\b", text + wanted):
            wanted += source
    return [source for source in load_helpers().values() if source in wanted]


def list_headers(text: str) -> list[str]:
    """The headers that a kernel's text needs besides those that come before it."""
    return ["cmath", *(header for kind, header in HEADERS.items() if kind in text)]
