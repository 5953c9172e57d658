"""Kernel templates: the decisions of one kernel family and the variables that its Jinja file is rendered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.graph import Node, Num, Shape, UnsupportedPattern, walk
from evokernel.generators.template_search.patterns import KernelPattern, Operand, multiply_nums

TemplateVariables = Mapping[str, object]


@dataclass(frozen=True)
class StageArgument:
    """An argument of a stage's function: its name in the template, and the tensor in memory or the number it stands for."""

    name: str
    value: Node | Num


@dataclass(frozen=True)
class PatternDescription:
    """A pattern in the terms of its template."""

    arguments: tuple[StageArgument, ...]
    """Arguments of the stage's function, in order."""
    variables: TemplateVariables
    """Further variables of the Jinja file."""
    traits: frozenset[str] = frozenset()
    """Properties that the template's decisions depend on."""


@dataclass(frozen=True)
class KernelTemplate:
    """The code of one kernel family with open decisions; the Jinja file next to its module has the same name."""

    decisions: tuple[Decision, ...]
    describe: Callable[[KernelPattern], PatternDescription]
    """Raises UnsupportedPattern with a short description of what this template does not cover."""


def name_free_numbers(*roots: Node) -> dict[Num, str]:
    """Names `s0`, `s1`, ... for the numbers in elementwise steps that are scalar arguments or follow from extents."""
    names: dict[Num, str] = {}
    for node in walk(*roots):
        for number in node.nums if node.op == "const" else ():
            if not number.is_literal and number not in names:
                names[number] = f"s{len(names)}"
    return names


def name_operands(operands: Sequence[Operand]) -> dict[Node, str]:
    """Names `x0`, `x1`, ... for the operands; raises UnsupportedPattern for tensors other than float32."""
    for operand in operands:
        if operand.node.op == "leaf" and operand.node.dtype != "float32":
            raise UnsupportedPattern(f"{operand.node.dtype} tensors")
    return {operand.node: f"x{i}" for i, operand in enumerate(operands)}


def axis_sizes(x: Shape, other: Shape, axis: int) -> tuple[StageArgument, ...]:
    """Arguments for the size before an axis, along it in either tensor, and after it."""
    return (
        StageArgument("outer", multiply_nums(x[:axis])),
        StageArgument("n", x[axis]),
        StageArgument("m", other[axis]),
        StageArgument("inner", multiply_nums(x[axis + 1 :])),
    )
