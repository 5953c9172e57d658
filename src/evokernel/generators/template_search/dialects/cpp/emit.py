"""Numbers and elementwise steps as C: one `template <class T>` function that serves single floats and vectors alike."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.dialects.literals import SIGNS, spelled
from evokernel.generators.template_search.graph import ELEMENTWISE, Node, NoSketch, Num

LOGIC = {"and": "&", "or": "|"}
NUMBERS = {
    "extent": "in_{0}_shape[{1}]",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} / ({1}))", "div": "(double({0}) / double({1}))",
    "sqrt": "std::sqrt(double({0}))", "rsqrt": "(1.0 / std::sqrt(double({0})))", "reciprocal": "(1.0 / double({0}))",
    "log": "std::log(double({0}))",
}  # fmt: skip


def number(num: Num) -> str:
    """A number as a C expression where the kernel's arguments are known."""
    return spelled(num, NUMBERS, literal)


def literal(value: float, integer: bool = False) -> str:
    """A number in C."""
    if integer:
        return str(int(value))
    if value - value != 0:
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str] | None = None) -> str:
    """`name(T a, T b, ..., float s0, ...)` that computes `tree`; `arguments` names the subtrees that are passed in.

    Conditions (comparisons, masks) are whatever comparing two T gives; a mask that lies in memory is compared with zero when read.
    """
    lines: list[str] = []
    known: dict[Node, str] = dict(arguments)
    given = dict(numbers or {})

    def visit(node: Node) -> str:
        if node in known:
            return known[node]
        if node.op == "const":
            value = node.nums[0]
            known[node] = f"(T{{}} + float({given[value] if value in given else number(value)}))"
            return known[node]
        if node.op not in ELEMENTWISE:
            raise NoSketch(f"{node.op} inside an elementwise part")
        args = [visit(a) for a in node.args]
        text = step(
            node, [condition(a, t) if wants_condition(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))]
        )
        known[node] = f"t{len(lines)}"
        lines.append(f"    const {'auto' if is_condition(node) else 'T'} {known[node]} = {text};")
        return known[node]

    result = visit(tree)
    if tree not in arguments:
        result = as_number(tree, result)
    takes = ", ".join([*(f"T {a}" for a in arguments.values()), *(f"float {s}" for s in given.values())])
    return "\n".join([f"template <class T> static inline T {name}({takes}) {{", *lines, f"    return {result};", "}"])


def wants_condition(node: Node, i: int) -> bool:
    """Whether an argument is used as a condition."""
    return node.op in ("and", "or", "not") or (node.op == "where" and i == 0)


def condition(node: Node, text: str) -> str:
    """A mask from memory is a number: it holds where that is not zero."""
    return text if is_condition(node) else f"({text} != T{{}})"


def as_number(node: Node, text: str) -> str:
    """A condition as a number: one where it holds."""
    return f"({text} ? T{{}} + 1.0f : T{{}})" if is_condition(node) else text


def is_condition(node: Node) -> bool:
    """Whether the text of a value is what comparing gives, not a number."""
    return node.dtype == "bool" and node.op not in ("leaf", "cast")


def step(node: Node, args: list[str]) -> str:
    """One elementwise step."""
    if node.op in SIGNS:
        return f"{args[0]} {SIGNS[node.op]} {args[1]}"
    if node.op in LOGIC:
        return f"{args[0]} {LOGIC[node.op]} {args[1]}"
    if node.op == "not":
        return f"!{args[0]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "select":
        return f"{args[0]} {node.name} {args[1]} ? {args[2]} : {args[3]}"
    if node.op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if node.op == "cast":
        if node.name == "bool":
            return f"{args[0]} != T{{}} ? T{{}} + 1.0f : T{{}}"
        if "int" in node.name:
            return args[0] if "int" in node.args[0].dtype or node.args[0].dtype == "bool" else f"trunc_({args[0]})"
        return f"{node.name}_({args[0]})" if node.name in ("float16", "bfloat16") else args[0]
    return f"{node.op}_({', '.join(args)})"
