"""What a reference computes, as a graph of few kinds of values: arguments, numbers, elementwise steps, reductions, heavy operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

ELEMENTWISE = frozenset(
    {
        "add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "erf", "sqrt", "abs", "max", "min", "select", "floor", "round", "sin",
        "cos", "exponent", "power2", "pow", "cast", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "where",
    }
)  # fmt: skip
CONDITIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"})
TRANSCENDENTAL = frozenset({"exp", "log", "tanh", "erf", "sin", "cos", "pow"})
VIEWS = frozenset({"reshape", "permute", "expand", "slice", "flip", "cat"})
"""What moves elements without computing; a reshape does not even move them."""


class NoSketch(Exception):
    """The reference does something the sketches do not cover; the message says what, in a few words."""


@dataclass(frozen=True)
class Num:
    """A number at every size that was traced, and how it comes about, so that the kernel follows it to other sizes."""

    values: tuple[float, ...] = field(default=())
    op: str = "literal"
    """`literal`, `scalar`, `extent`, or arithmetic on `args`: add, sub, mul, div, floordiv, sqrt, rsqrt, reciprocal, log."""
    args: tuple[Num, ...] = field(default=(), compare=False)
    name: str = field(default="", compare=False)
    """Of a scalar or an extent: the argument."""
    axis: int = field(default=0, compare=False)
    integer: bool = True

    @property
    def value(self) -> float:
        """At bench size."""
        return self.values[0]

    @property
    def is_one(self) -> bool:
        """Whether it is 1 by nature, not only at some size."""
        return self.op == "literal" and self.values[0] == 1

    @property
    def is_literal(self) -> bool:
        return self.op == "literal"

    @staticmethod
    def of(value: float) -> Num:
        """A literal; one value stands for all sizes."""
        return Num((value,), integer=isinstance(value, int))

    def same(self, other: Num) -> bool:
        """Whether both have the same value at every size."""
        n = max(len(self.values), len(other.values))
        return spread(self.values, n) == spread(other.values, n)


def spread(values: tuple[float, ...], n: int) -> tuple[float, ...]:
    """A literal's value once per size."""
    return values * n if len(values) == 1 else values


STEPS: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv,
}  # fmt: skip


def arithmetic(op: str, left: Num, right: Num) -> Num:
    """A number from two others."""
    n = max(len(left.values), len(right.values))
    values = tuple(STEPS[op](a, b) for a, b in zip(spread(left.values, n), spread(right.values, n)))
    whole = left.integer and right.integer and op != "div"
    if left.is_literal and right.is_literal:
        return Num.of(int(values[0]) if whole else values[0])
    if op == "mul" and left.is_one:
        return right
    if op in ("mul", "div", "floordiv") and right.is_one:
        return left
    return Num(values, op, (left, right), integer=whole)


Shape = tuple[Num, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the reference. Reductions keep their axes, as 1, until a `reshape` drops them. Equal nodes compute equal things."""

    op: str
    args: tuple[Node, ...] = ()
    shape: Shape = ()
    name: str = ""
    """Of a leaf: the buffer it is read from; of a reduction, scan or pooling: its kind."""
    dims: tuple[int, ...] = ()
    """Of a reduction, scan or flip: the axes; of a permutation: the order; of an index: the axis it counts along."""
    nums: tuple[Num, ...] = ()
    dtype: str = "float32"
    """Of the elements."""

    @cached_property
    def key(self) -> int:
        parts = tuple(a.key for a in self.args)
        # Numbers as text: -1 and -2 have the same hash.
        nums = tuple((n.op, repr(n.values)) for n in self.nums)
        return hash((self.op, parts, tuple(n.values for n in self.shape), self.name, self.dims, nums, self.dtype))

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.key == other.key

    @property
    def is_elementwise(self) -> bool:
        return self.op in ELEMENTWISE

    @property
    def is_given(self) -> bool:
        """Whether there is nothing to compute: a tensor in memory, a number, or a position."""
        return self.op in ("leaf", "const", "index")


def leaf(name: str, shape: Shape, dtype: str = "float32") -> Node:
    """A tensor that lies in memory, rows first: an argument or what an earlier stage wrote, seen in this shape."""
    return Node("leaf", (), shape, name, dtype=dtype)


def const(number: Num) -> Node:
    """A number as a tensor of rank 0."""
    return Node("const", nums=(number,), dtype="float32")


def index(shape: Shape, axis: int) -> Node:
    """The position along an axis, as a number."""
    return Node("index", (), tuple(n if i == axis else Num.of(1) for i, n in enumerate(shape)), dims=(axis,))


def as_node(value: object) -> Node:
    """A node from a node or a number."""
    if isinstance(value, Node):
        return value
    if isinstance(value, Num):
        return const(value)
    if isinstance(value, (int, float)):
        return const(Num.of(float(value)))
    raise NoSketch(f"{type(value).__name__} where a tensor or a number is expected")


def apply(op: str, *values: object) -> Node:
    """An elementwise step with broadcasting; what is only stretched is taken as it was before."""
    args = tuple(as_node(v) for v in values)
    whole = broadcast(*(a.shape for a in args))
    return Node(op, tuple(unstretched(a) for a in args), whole, dtype="bool" if op in CONDITIONS else "float32")


def unstretched(node: Node) -> Node:
    """The value behind a broadcast."""
    while node.op == "expand":
        node = node.args[0]
    return node


def select(relation: str, left: object, right: object, yes: object, no: object) -> Node:
    """`left relation right ? yes : no`, elementwise; relation is `<`, `>`, `<=` or `>=`."""
    return replace(apply("select", left, right, yes, no), name=relation)


def broadcast(*shapes: Shape) -> Shape:
    """The common shape."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(Num.of(1),) * (rank - len(s)) + s for s in shapes]
    out = tuple(next((n for n in sizes if not n.is_one), sizes[0]) for sizes in zip(*padded)) if rank else ()
    if any(not size.is_one and not size.same(full) for shape in padded for size, full in zip(shape, out)):
        raise NoSketch("shapes that do not broadcast")
    return out


def aligned(shape: Shape, rank: int) -> Shape:
    """A shape with ones in front, up to a rank."""
    return (Num.of(1),) * (rank - len(shape)) + shape


def equal_shapes(a: Shape, b: Shape) -> bool:
    """Whether two shapes are the same at every size."""
    return len(a) == len(b) and all(x.same(y) for x, y in zip(a, b))


def same_around(a: Shape, b: Shape, axis: int | None) -> bool:
    """Whether two shapes are the same at every size but for one axis."""
    return len(a) == len(b) and all(i == axis or x.same(y) for i, (x, y) in enumerate(zip(a, b)))


def reduce(kind: str, x: object, dim: object = None, keepdim: object = False) -> Node:
    """A reduction over one, several or all axes: sum, mean, max, min, prod, argmax or argmin."""
    node = as_node(x)
    axes = axes_of(dim, len(node.shape))
    shape = tuple(Num.of(1) if i in axes else n for i, n in enumerate(node.shape))
    kept = Node("reduce", (node,), shape, kind, axes, dtype="int64" if kind.startswith("arg") else "float32")
    return kept if keepdim else squeeze(kept, axes)


def squeeze(node: Node, axes: Iterable[int]) -> Node:
    """Drops axes of size one."""
    gone = set(axes)
    return reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in gone))


def unsqueeze(node: Node, dim: int) -> Node:
    """Inserts an axis of size one."""
    at = dim % (len(node.shape) + 1)
    return reshape(node, (*node.shape[:at], Num.of(1), *node.shape[at:]))


def reshape(node: Node, shape: Shape) -> Node:
    """The same elements in the same order under another shape."""
    if equal_shapes(node.shape, shape):
        return node
    if node.op == "reshape":
        return reshape(node.args[0], shape)
    if node.op == "leaf":
        return replace(node, shape=shape)
    if node.op == "index" and sum(not n.is_one for n in shape) <= 1:
        return replace(node, shape=shape, dims=tuple(i for i, n in enumerate(shape) if not n.is_one) or (0,))
    return Node("reshape", (node,), shape, dtype=node.dtype)


def permute(node: Node, order: tuple[int, ...]) -> Node:
    """Reorders axes."""
    if order == tuple(range(len(order))):
        return node
    if node.op == "permute":
        return permute(node.args[0], tuple(node.dims[i] for i in order))
    moved = tuple(i for i in order if not node.shape[i].is_one)
    if moved == tuple(sorted(moved)):
        return reshape(node, tuple(node.shape[i] for i in order))
    return Node("permute", (node,), tuple(node.shape[i] for i in order), dims=order, dtype=node.dtype)


def axes_of(dim: object, rank: int) -> tuple[int, ...]:
    """Axes as sorted non-negative positions; None or none at all means every one."""
    if dim is None or dim == ():
        return tuple(range(rank))
    if not rank:
        raise NoSketch("an axis of a tensor that has none")
    listed = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(sorted(integer(d) % rank for d in listed))


def integer(value: object) -> int:
    """A plain int from a number that does not depend on the size."""
    if isinstance(value, Num) and len(set(value.values)) == 1:
        return int(value.value)
    if isinstance(value, int):
        return int(value)
    raise NoSketch(
        "a setting that changes with the size" if isinstance(value, Num) else f"{type(value).__name__} where an integer is expected"
    )


def number(value: object) -> Num:
    """A Num from a number of the reference."""
    if isinstance(value, Num):
        return value
    if isinstance(value, (int, float)):
        return Num.of(value)
    raise NoSketch(f"{type(value).__name__} where a number is expected")


def walk(*roots: Node) -> list[Node]:
    """Every distinct node below and including these, arguments first."""
    seen: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if node in seen:
            continue
        if done:
            seen[node] = None
        else:
            stack.append((node, True))
            stack += [(arg, False) for arg in reversed(node.args)]
    return list(seen)


def reached(tree: Node, stops: set[Node]) -> set[Node]:
    """The nodes a computation touches when some are given to it."""
    found: set[Node] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [] if node in stops else node.args
    return found


def rebuilt(root: Node, new: Mapping[Node, Node]) -> Node:
    """The same graph with some values exchanged."""
    made: dict[Node, Node] = dict(new)
    for node in walk(root):
        if node not in made:
            args = tuple(made[a] for a in node.args)
            made[node] = node if args == node.args else replace(node, args=args)
    return made[root]


def elements(shape: Shape) -> float:
    """Number of elements at bench size."""
    return prod(n.value for n in shape)
