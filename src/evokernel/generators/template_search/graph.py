"""The graph of a reference: arguments, numbers, elementwise steps, reductions and compute-intensive operators."""

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
"""Operations that move elements without computing; a reshape does not even move them."""


class UnsupportedPattern(Exception):
    """The reference contains something that no template covers; the message describes it in a few words."""


@dataclass(frozen=True)
class Num:
    """A number with its value at every traced size, and the expression it comes from, so that a kernel can compute it at other sizes."""

    values: tuple[float, ...] = field(default=())
    op: str = "literal"
    """`literal`, `scalar`, `extent`, or arithmetic on `args`: add, sub, mul, div, floordiv, sqrt, rsqrt, reciprocal, log."""
    args: tuple[Num, ...] = field(default=(), compare=False)
    name: str = field(default="", compare=False)
    """Of a scalar or an extent: the name of the argument."""
    axis: int = field(default=0, compare=False)
    is_integer: bool = True

    @property
    def value(self) -> float:
        """The value at bench size."""
        return self.values[0]

    @property
    def is_one(self) -> bool:
        """Whether it is the literal 1, and not only 1 at some size."""
        return self.op == "literal" and self.values[0] == 1

    @property
    def is_literal(self) -> bool:
        return self.op == "literal"

    @staticmethod
    def of(value: float) -> Num:
        """A literal, which has one value for all sizes."""
        return Num((value,), is_integer=isinstance(value, int))

    def is_same(self, other: Num) -> bool:
        """Whether both have the same value at every size."""
        n = max(len(self.values), len(other.values))
        return repeat_literal(self.values, n) == repeat_literal(other.values, n)


def repeat_literal(values: tuple[float, ...], n: int) -> tuple[float, ...]:
    """The values once per size: a literal's one value n times."""
    return values * n if len(values) == 1 else values


CALCULATIONS: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv,
}  # fmt: skip


def calculate(op: str, left: Num, right: Num) -> Num:
    """The number `left op right`, simplified if one of them is a literal."""
    n = max(len(left.values), len(right.values))
    values = tuple(CALCULATIONS[op](a, b) for a, b in zip(repeat_literal(left.values, n), repeat_literal(right.values, n)))
    is_integer = left.is_integer and right.is_integer and op != "div"
    if left.is_literal and right.is_literal:
        return Num.of(int(values[0]) if is_integer else values[0])
    if op == "mul" and left.is_one:
        return right
    if op in ("mul", "div", "floordiv") and right.is_one:
        return left
    return Num(values, op, (left, right), is_integer=is_integer)


Shape = tuple[Num, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the reference. Reduced axes remain with extent 1 until a `reshape` drops them. Equal nodes compute equal values."""

    op: str
    args: tuple[Node, ...] = ()
    shape: Shape = ()
    name: str = ""
    """Of a leaf: the buffer; of a reduction, scan or pooling: its kind."""
    dims: tuple[int, ...] = ()
    """Of a reduction, scan or flip: the axes; of a permutation: the order; of an index: its axis."""
    nums: tuple[Num, ...] = ()
    dtype: str = "float32"
    """The type of the elements."""

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
    def is_input(self) -> bool:
        """Whether the value needs no computation: a tensor in memory, a number, or a position."""
        return self.op in ("leaf", "const", "index")


def make_leaf(name: str, shape: Shape, dtype: str = "float32") -> Node:
    """A row-major tensor in memory, viewed in this shape: an argument, or the result of an earlier stage."""
    return Node("leaf", (), shape, name, dtype=dtype)


def make_const(number: Num) -> Node:
    """A number as a tensor of rank 0."""
    return Node("const", nums=(number,), dtype="float32")


def make_index(shape: Shape, axis: int) -> Node:
    """The position along an axis of a shape, as a number."""
    return Node("index", (), tuple(n if i == axis else Num.of(1) for i, n in enumerate(shape)), dims=(axis,))


def as_node(value: object) -> Node:
    """A node from a node or a number."""
    if isinstance(value, Node):
        return value
    if isinstance(value, Num):
        return make_const(value)
    if isinstance(value, (int, float)):
        return make_const(Num.of(float(value)))
    raise UnsupportedPattern(f"{type(value).__name__} where a tensor or a number is expected")


def apply(op: str, *values: object) -> Node:
    """An elementwise step with broadcasting; its arguments are taken without their `expand`."""
    args = tuple(as_node(v) for v in values)
    shape = broadcast_shapes(*(a.shape for a in args))
    return Node(op, tuple(strip_expands(a) for a in args), shape, dtype="bool" if op in CONDITIONS else "float32")


def strip_expands(node: Node) -> Node:
    """The value below any `expand` nodes."""
    while node.op == "expand":
        node = node.args[0]
    return node


def make_select(relation: str, left: object, right: object, yes: object, no: object) -> Node:
    """`left relation right ? yes : no`, elementwise; relation is `<`, `>`, `<=` or `>=`."""
    return replace(apply("select", left, right, yes, no), name=relation)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all shapes broadcast to."""
    rank = max((len(s) for s in shapes), default=0)
    padded = [(Num.of(1),) * (rank - len(s)) + s for s in shapes]
    out = tuple(next((n for n in sizes if not n.is_one), sizes[0]) for sizes in zip(*padded)) if rank else ()
    if any(not size.is_one and not size.is_same(full) for shape in padded for size, full in zip(shape, out)):
        raise UnsupportedPattern("shapes that do not broadcast")
    return out


def pad_rank(shape: Shape, rank: int) -> Shape:
    """A shape with leading ones, so that it has the given rank."""
    return (Num.of(1),) * (rank - len(shape)) + shape


def is_same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are the same at every size."""
    return len(a) == len(b) and all(x.is_same(y) for x, y in zip(a, b))


def is_same_shape_except(a: Shape, b: Shape, axis: int | None) -> bool:
    """Whether two shapes are the same at every size, except along one axis."""
    return len(a) == len(b) and all(i == axis or x.is_same(y) for i, (x, y) in enumerate(zip(a, b)))


def reduce(kind: str, x: object, dim: object = None, keepdim: object = False) -> Node:
    """A reduction over one, several or all axes: sum, mean, max, min, prod, argmax or argmin."""
    node = as_node(x)
    axes = normalize_axes(dim, len(node.shape))
    shape = tuple(Num.of(1) if i in axes else n for i, n in enumerate(node.shape))
    node = Node("reduce", (node,), shape, kind, axes, dtype="int64" if kind.startswith("arg") else "float32")
    return node if keepdim else squeeze(node, axes)


def squeeze(node: Node, axes: Iterable[int]) -> Node:
    """Drops axes of size one."""
    dropped = set(axes)
    return reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in dropped))


def unsqueeze(node: Node, dim: int) -> Node:
    """Inserts an axis of size one."""
    at = dim % (len(node.shape) + 1)
    return reshape(node, (*node.shape[:at], Num.of(1), *node.shape[at:]))


def reshape(node: Node, shape: Shape) -> Node:
    """The same elements in the same order under another shape."""
    if is_same_shape(node.shape, shape):
        return node
    if node.op == "reshape":
        return reshape(node.args[0], shape)
    if node.op == "leaf":
        return replace(node, shape=shape)
    if node.op == "index" and sum(not n.is_one for n in shape) <= 1:
        return replace(node, shape=shape, dims=tuple(i for i, n in enumerate(shape) if not n.is_one) or (0,))
    return Node("reshape", (node,), shape, dtype=node.dtype)


def strip_reshapes(node: Node) -> Node:
    """The value below any reshapes, which is in the same memory."""
    while node.op == "reshape":
        node = node.args[0]
    return node


def permute(node: Node, order: tuple[int, ...]) -> Node:
    """Reorders axes."""
    if order == tuple(range(len(order))):
        return node
    if node.op == "permute":
        return permute(node.args[0], tuple(node.dims[i] for i in order))
    nontrivial = tuple(i for i in order if not node.shape[i].is_one)
    if nontrivial == tuple(sorted(nontrivial)):
        return reshape(node, tuple(node.shape[i] for i in order))
    return Node("permute", (node,), tuple(node.shape[i] for i in order), dims=order, dtype=node.dtype)


def in_memory(node: Node) -> Node:
    """A value that a stage can write to memory: an expanded number becomes a step over positions."""
    if node.op != "expand" or node.args[0].op != "const":
        return node
    zeros = [apply("mul", make_index(node.shape, axis), 0.0) for axis in range(len(node.shape))]
    total = node.args[0]
    for zero in zeros:
        total = apply("add", total, zero)
    return total


def normalize_axes(dim: object, rank: int) -> tuple[int, ...]:
    """Axes as sorted non-negative positions; None or an empty tuple means all axes."""
    if dim is None or dim == ():
        return tuple(range(rank))
    if not rank:
        raise UnsupportedPattern("an axis of a tensor without axes")
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple(sorted(as_integer(d) % rank for d in dims))


def as_integer(value: object) -> int:
    """An int from a number that does not depend on the size."""
    if isinstance(value, Num) and len(set(value.values)) == 1:
        return int(value.value)
    if isinstance(value, int):
        return int(value)
    raise UnsupportedPattern(
        "a setting that depends on the size" if isinstance(value, Num) else f"{type(value).__name__} where an integer is expected"
    )


def as_num(value: object) -> Num:
    """A Num from a number of the reference."""
    if isinstance(value, Num):
        return value
    if isinstance(value, (int, float)):
        return Num.of(value)
    raise UnsupportedPattern(f"{type(value).__name__} where a number is expected")


def walk(*roots: Node) -> list[Node]:
    """Every distinct node of the graphs with these roots, arguments before their users."""
    visited: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, has_args = stack.pop()
        if node in visited:
            continue
        if has_args:
            visited[node] = None
        else:
            stack.append((node, True))
            stack += [(arg, False) for arg in reversed(node.args)]
    return list(visited)


def reachable_nodes(tree: Node, stops: set[Node]) -> set[Node]:
    """The nodes that a value depends on, without those below `stops`."""
    nodes: set[Node] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack += [] if node in stops else node.args
    return nodes


def replace_nodes(root: Node, replacements: Mapping[Node, Node]) -> Node:
    """The graph below a node with some of its values replaced."""
    rebuilt: dict[Node, Node] = dict(replacements)
    for node in walk(root):
        if node not in rebuilt:
            args = tuple(rebuilt[a] for a in node.args)
            rebuilt[node] = node if args == node.args else replace(node, args=args)
    return rebuilt[root]


def element_count(shape: Shape) -> float:
    """Number of elements at bench size."""
    return prod(n.value for n in shape)
