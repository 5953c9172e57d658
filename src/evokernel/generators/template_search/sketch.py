"""What a sketch is: which form it writes, what it leaves open, and what its template is rendered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.forms import Form, Operand, product
from evokernel.generators.template_search.graph import Node, NoSketch, Num, Shape, walk

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Given:
    """An argument of a stage: under which name its text knows it, and what it is, a tensor in memory or a number."""

    name: str
    value: Node | Num


@dataclass(frozen=True)
class Described:
    """A form as a sketch sees it."""

    given: tuple[Given, ...]
    """What the stage's function is called with, in order."""
    facts: Facts
    """Further names its template uses."""
    traits: frozenset[str] = frozenset()
    """What its decisions depend on."""


@dataclass(frozen=True)
class Sketch:
    """One kernel with open decisions; its template lies beside it under the same name."""

    decisions: tuple[Decision, ...]
    describe: Callable[[Form], Described]
    """Raises NoSketch, saying in a few words what this sketch does not cover."""


def free_numbers(*roots: Node) -> dict[Num, str]:
    """Numbers in elementwise steps that the kernel is given or has to compute from extents, each with a name: `s0`, `s1`."""
    found: dict[Num, str] = {}
    for node in walk(*roots):
        for number in node.nums if node.op == "const" else ():
            if not number.is_literal and number not in found:
                found[number] = f"s{len(found)}"
    return found


def named(operands: Sequence[Operand]) -> dict[Node, str]:
    """A name for every tensor read: x0, x1 and so on; all float32."""
    for operand in operands:
        if operand.node.op == "leaf" and operand.node.dtype != "float32":
            raise NoSketch(f"{operand.node.dtype} tensors")
    return {operand.node: f"x{i}" for i, operand in enumerate(operands)}


def around(x: Shape, other: Shape, axis: int) -> tuple[Given, ...]:
    """Sizes before an axis, along it in either tensor, and after it."""
    return (Given("outer", product(x[:axis])), Given("n", x[axis]), Given("m", other[axis]), Given("inner", product(x[axis + 1 :])))
