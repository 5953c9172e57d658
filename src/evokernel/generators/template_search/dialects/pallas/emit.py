"""Emits numbers, elementwise steps and reductions as Python over JAX arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evokernel.generators.template_search.dialects.literals import SIGNS, format_number
from evokernel.generators.template_search.dialects.steps import emit_steps
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, walk

CALLS = {"max": "jnp.maximum", "min": "jnp.minimum", "erf": "jax.lax.erf", "and": "jnp.logical_and", "or": "jnp.logical_or",
         "not": "jnp.logical_not"}  # fmt: skip
NUMBERS = {
    "extent": "in_{0}.shape[{1}]",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} // ({1}))", "div": "({0} / ({1}))",
    "sqrt": "({0}) ** 0.5", "rsqrt": "({0}) ** -0.5", "reciprocal": "1.0 / ({0})", "log": "math.log({0})",
}  # fmt: skip
BITS = {
    "exponent": "jnp.where({0} == 0.0, 0.0, ((jax.lax.bitcast_convert_type({0}, jnp.int32) >> 23 & 255) - 126).astype(jnp.float32))",
    "power2": "jax.lax.bitcast_convert_type(({0}.astype(jnp.int32) + 127) << 23, jnp.float32)",
}
"""Extract the exponent of a float, and build a float from one."""
START = {"sum": "0.0", "mean": "0.0", "max": "-jnp.inf", "min": "jnp.inf", "prod": "1.0"}
"""The neutral element, which replaces elements outside the valid range."""


def format_num(num: Num) -> str:
    """A number as a Python expression over the kernel's arguments."""
    return format_number(num, NUMBERS, format_literal)


def join_arguments(parts: Iterable[str]) -> str:
    """Arguments separated by commas."""
    return ", ".join(parts)


def format_literal(value: float, integer: bool = False) -> str:
    """A Python literal."""
    if integer:
        return str(int(value))
    return repr(float(value)) if value - value == 0 else f'float("{value}")'


def emit_function(
    name: str, tree: Node, arguments: Mapping[Node, str], divide: str = "exact", valid: str = "", axis: int | str = 1,
    numbers: Mapping[Num, str] | None = None,
) -> str:  # fmt: skip
    """`name(a, b, ...)` that computes `tree` over blocks; `arguments` names the subtrees passed in, `numbers` the outer variables.

    Reductions combine `n` elements along `axis`; `valid` is a condition for valid elements, or empty if all are valid.
    """
    number_names = dict(numbers or {})

    def format_constant(value: Num) -> str:
        return number_names[value] if value in number_names else format_num(value)

    def format_statement(node: Node, args: list[str], target: str) -> str:
        text = format_reduction(node, args[0], valid, axis) if node.op == "reduce" else format_step(node, args, divide)
        return f"    {target} = {text}"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement, frozenset({"reduce"}))
    return "\n".join([f"def {name}({', '.join(arguments.values())}):", *lines, f"    return {result}"])


def format_reduction(node: Node, arg: str, valid: str, axis: int | str) -> str:
    """A reduction over some axes of a block, as a JAX expression."""
    if node.name not in START:
        raise UnsupportedPattern(f"{node.name} among other steps")
    operand = f"jnp.where({valid}, {arg}, {START[node.name]})" if valid else arg
    if node.name == "mean":
        return f"jnp.sum({operand}, axis={axis}, keepdims=True) * (1.0 / n)"
    if node.name == "prod":
        return f"product({operand}, {axis})"
    return f"jnp.{node.name}({operand}, axis={axis}, keepdims=True)"


def format_step(node: Node, args: list[str], divide: str) -> str:
    """One elementwise step as a JAX expression."""
    if node.op == "div" and divide != "exact" and node.args[1].op != "const":
        inverse = f"pl.reciprocal({args[1]}, approx={divide == 'approx'})"
        return inverse if node.args[0].op == "const" and node.args[0].nums[0].value == 1 else f"{args[0]} * {inverse}"
    if node.op in SIGNS:
        return f"{args[0]} {SIGNS[node.op]} {args[1]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "select":
        return f"jnp.where({args[0]} {node.name} {args[1]}, {args[2]}, {args[3]})"
    if node.op == "where":
        condition = args[0] if node.args[0].dtype == "bool" and node.args[0].op != "leaf" else f"{args[0]} != 0"
        return f"jnp.where({condition}, {args[1]}, {args[2]})"
    if node.op == "cast":
        return format_cast(node, args[0])
    if node.op in BITS:
        return BITS[node.op].format(args[0])
    return f"{CALLS.get(node.op, f'jnp.{node.op}')}({', '.join(args)})"


def format_cast(node: Node, arg: str) -> str:
    """A conversion: kernels compute in float32, int32 or bool, and read tensors of any type as float32."""
    if node.name == "bool":
        return f"{arg} != 0"
    if not node.name.startswith(("int", "uint")):
        return f"{arg}.astype(jnp.float32)" if is_integer_or_bool(node.args[0]) else arg
    return f"{arg}.astype(jnp.int32)"


def is_integer_or_bool(node: Node) -> bool:
    """Whether a computed value may be an integer or a bool."""
    return node.op not in ("leaf", "const", "index") and any(n.dtype != "float32" for n in walk(node) if not n.is_input)
