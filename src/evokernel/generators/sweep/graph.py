"""What a reference computes, as a small expression tree: leaves, numbers, elementwise steps and a few heavy operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

ELEMENTWISE = frozenset({"add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "erf", "sqrt", "abs", "max", "min", "select"})
TRANSCENDENTAL = frozenset({"exp", "log", "tanh", "erf"})


class NoSketch(Exception):
    """The reference does something the sketches do not cover; the message says what, in a few words."""


@dataclass(frozen=True)
class Num:
    """A number known at bench size, and how it comes about, so that the kernel follows it to other sizes."""

    value: float
    op: str = "literal"
    """`literal`, `scalar`, `extent`, a step of arithmetic, `sqrt`, `rsqrt`, `reciprocal`, `int` or `float`."""
    args: tuple[Num, ...] = ()
    name: str = ""
    """Of a literal: its text; of a scalar or an extent: the argument."""
    axis: int = 0
    integer: bool = True

    @staticmethod
    def of(value: float) -> Num:
        """A literal."""
        whole = isinstance(value, int)
        return Num(value, name=str(value) if whole else repr(float(value)), integer=whole)


@dataclass(frozen=True)
class Node:
    """One value of the reference. `shape` is at bench size; reductions keep their axes (as 1) until a `squeeze`."""

    op: str
    args: tuple[Node, ...] = ()
    shape: tuple[int, ...] = ()
    name: str = ""
    """Of a leaf: the tensor; of a reduction, scan or pooling: its kind."""
    dims: tuple[int, ...] = ()
    """Of a leaf: its own axis at each position, -1 for one that was inserted; of a reduction: the axes."""
    nums: tuple[Num, ...] = ()
    dtype: str = ""
    """Of a leaf."""

    @property
    def is_heavy(self) -> bool:
        return self.op not in ELEMENTWISE and self.op not in ("leaf", "const")


def tensor_name(name: str) -> str:
    """How the kernel calls an input or parameter: apart from every name the sketches use themselves."""
    return f"in_{name}"


def scalar_name(name: str) -> str:
    """How the kernel calls a scalar argument."""
    return f"arg_{name}"


def leaf(name: str, shape: tuple[int, ...], dtype: str) -> Node:
    """A tensor of the signature."""
    return Node("leaf", (), shape, tensor_name(name), tuple(range(len(shape))), dtype=dtype)


def const(number: Num) -> Node:
    """A number as a tensor of rank 0."""
    return Node("const", nums=(number,))


def as_node(value: object) -> Node:
    """A node from a node or a number."""
    if isinstance(value, Node):
        return value
    if isinstance(value, Num):
        return const(value)
    if isinstance(value, (int, float)):
        return const(Num.of(value))
    raise NoSketch(f"{type(value).__name__} where a tensor or a number is expected")


def apply(op: str, *values: object) -> Node:
    """An elementwise step with broadcasting."""
    args = tuple(as_node(v) for v in values)
    return Node(op, args, broadcast(*(a.shape for a in args)))


def select(relation: str, left: object, right: object, yes: object, no: object) -> Node:
    """`left relation right ? yes : no`, elementwise."""
    return replace(apply("select", left, right, yes, no), name=relation)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    out = tuple(max(sizes) for sizes in zip(*padded))
    if any(size not in (1, full) for shape in padded for size, full in zip(shape, out)):
        raise NoSketch(f"shapes {shapes} that do not broadcast")
    return out


def reduce(kind: str, x: object, dim: object = None, keepdim: object = False) -> Node:
    """A reduction over one, several or all axes."""
    node = as_node(x)
    axes = axes_of(dim, len(node.shape))
    shape = tuple(1 if i in axes else n for i, n in enumerate(node.shape))
    kept = Node("reduce", (node,), shape, kind, axes)
    return kept if keepdim else squeeze(kept, axes)


def squeeze(node: Node, axes: tuple[int, ...]) -> Node:
    """Drops axes of size one."""
    return Node("squeeze", (node,), tuple(n for i, n in enumerate(node.shape) if i not in axes), dims=axes)


def unsqueeze(node: Node, dim: int) -> Node:
    """Inserts an axis of size one."""
    at = dim % (len(node.shape) + 1)
    shape = (*node.shape[:at], 1, *node.shape[at:])
    if node.op == "leaf":
        return replace(node, shape=shape, dims=(*node.dims[:at], -1, *node.dims[at:]))
    if node.op == "squeeze" and node.dims == (at,):
        return node.args[0]
    raise NoSketch(f"an axis inserted into the result of {node.op}")


def permute(node: Node, order: tuple[int, ...]) -> Node:
    """Reorders axes."""
    return Node("permute", (node,), tuple(node.shape[i] for i in order), dims=order)


def axes_of(dim: object, rank: int) -> tuple[int, ...]:
    """Axes as sorted non-negative positions; None means all."""
    if not rank:
        raise NoSketch("an axis of a tensor that has none")
    if dim is None:
        return tuple(range(rank))
    listed = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(sorted(integer(d) % rank for d in listed))


def integer(value: object) -> int:
    """A plain int from a number of the reference."""
    if isinstance(value, Num):
        return int(value.value)
    if isinstance(value, int):
        return value
    raise NoSketch(f"{type(value).__name__} where an integer is expected")


def number(value: object) -> Num:
    """A Num from a number of the reference."""
    if isinstance(value, Num):
        return value
    if isinstance(value, (int, float)):
        return Num.of(value)
    raise NoSketch(f"{type(value).__name__} where a number is expected")


def walk(node: Node) -> list[Node]:
    """Every distinct node below and including this one, arguments first."""
    seen: dict[Node, None] = {}

    def visit(at: Node) -> None:
        if at not in seen:
            for arg in at.args:
                visit(arg)
            seen[at] = None

    visit(node)
    return list(seen)


def swap(node: Node, old: Node, new: Node) -> Node:
    """The same tree with one subtree exchanged."""
    if node == old:
        return new
    return replace(node, args=tuple(swap(a, old, new) for a in node.args)) if node.args else node


def size(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return prod(shape)
