"""Emits numbers and elementwise steps as Triton: one `@triton.jit` helper function per tree of steps."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.dialects.literals import format_number
from evokernel.generators.template_search.dialects.steps import StepSyntax, emit_steps, format_step, needs_condition
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern

NUMBERS = {
    "extent": "in_{0}.shape[{1}]",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} // ({1}))", "div": "({0} / ({1}))",
    "sqrt": "({0}) ** 0.5", "rsqrt": "({0}) ** -0.5", "reciprocal": "1.0 / ({0})", "log": "math.log({0})",
}  # fmt: skip
CALLS = {
    "exp": "tl.exp({0})", "log": "tl.log({0})", "erf": "tl.erf({0})", "sqrt": "tl.sqrt({0})", "abs": "tl.abs({0})",
    "floor": "tl.floor({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "max": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)", "min": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "tanh": "tanh({0})", "round": "round_even({0})", "pow": "power({0}, {1})", "exponent": "exponent({0})", "power2": "power2({0})",
}  # fmt: skip
HELPERS = {
    "tanh": '''@triton.jit
def tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    z = x * x
    series = ((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1
    series = (series * z - 3.33332819422e-1) * z * x + x
    return tl.where(tl.abs(x) < 0.625, series, tl.where(x < 0, (e - 1.0) / (1.0 + e), (1.0 - e) / (1.0 + e)))''',
    "round_even": '''@triton.jit
def round_even(x):
    low = tl.floor(x)
    rest = x - low
    is_odd = (low - 2.0 * tl.floor(low * 0.5)) != 0
    return tl.where((rest > 0.5) | ((rest == 0.5) & is_odd), low + 1.0, low)''',
    "power": '''@triton.jit
def power(x, y):
    x = x + 0.0 * y
    y = y + 0.0 * x
    wide, exponent = x.to(tl.float64), y.to(tl.float64)
    size = tl.exp(exponent * tl.log(tl.abs(wide)))
    whole = tl.floor(exponent)
    is_odd = (whole - 2.0 * tl.floor(whole * 0.5)) != 0
    signed = tl.where(whole != exponent, float("nan"), tl.where(is_odd, -size, size))
    return tl.where(exponent == 0, 1.0, tl.where(wide < 0, signed, size)).to(tl.float32)''',
    "exponent": '''@triton.jit
def exponent(x):
    return tl.where(x == 0.0, 0.0, ((x.to(tl.int32, bitcast=True) >> 23 & 255) - 126).to(tl.float32))''',
    "power2": '''@triton.jit
def power2(x):
    return ((x.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)''',
    "multiply": '''@triton.jit
def multiply(a, b):
    return a * b''',
}  # fmt: skip
"""Functions that Triton lacks, or that its interpreter lacks; `series` is the minimax polynomial of Cephes."""


def format_num(num: Num) -> str:
    """A number as a Python expression over the kernel's arguments."""
    return format_number(num, NUMBERS, format_literal)


def format_literal(value: float, integer: bool = False) -> str:
    """A literal for the launch function and for kernels."""
    if integer:
        return str(int(value))
    return repr(float(value)) if value - value == 0 else f'float("{value}")'


def emit_function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str]) -> str:
    """`name(a, b, ..., s0, ...)` that computes `tree` over blocks; `arguments` names the subtrees that are passed in."""

    def format_constant(value: Num) -> str:
        return numbers[value] if value in numbers else format_literal(value.value)

    def format_statement(node: Node, args: list[str], target: str) -> str:
        operands = [as_condition(a, t) if needs_condition(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))]
        return f"    {target} = {format_step(node, operands, SYNTAX)}"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement)
    if tree.op == "const":
        raise UnsupportedPattern("a result that is a number")
    parameters = ", ".join([*arguments.values(), *numbers.values()])
    return "\n".join(["@triton.jit", f"def {name}({parameters}):", *lines, f"    return {result}"])


def is_condition(node: Node) -> bool:
    """Whether the text of a value is a comparison, not a number."""
    return node.dtype == "bool" and node.op != "leaf"


def as_condition(node: Node, text: str) -> str:
    """A value as a condition: a mask from memory is a number, which is compared with zero."""
    return text if is_condition(node) else f"({text} != 0)"


def as_number(node: Node, text: str) -> str:
    """A value as a number: 1 where a condition holds, 0 elsewhere."""
    return f"{text}.to(tl.float32)" if is_condition(node) else text


def format_cast(node: Node, arg: str) -> str:
    """A conversion: kernels compute in float32 and convert when they write."""
    if node.name == "bool":
        return f"{arg} != 0"
    if "int" in node.name:
        is_whole = "int" in node.args[0].dtype or node.args[0].dtype == "bool"
        return arg if is_whole else f"tl.where({arg} < 0, tl.ceil({arg}), tl.floor({arg}))"
    return f"{arg}.to(tl.{node.name}).to(tl.float32)" if node.name in ("float16", "bfloat16") else arg


SYNTAX = StepSyntax("{0} == 0", "tl.where({0}, {1}, {2})", format_cast, lambda node, args: CALLS[node.op].format(*args))


def list_helpers(text: str) -> list[str]:
    """The functions that a kernel's text calls."""
    return [source for name, source in HELPERS.items() if f" {name}(" in text or f"({name}(" in text or f", {name})" in text]
