"""Elements read, written or added up at places that other tensors give. Every index is valid by contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    arithmetic,
    as_node,
    const,
    integer,
    number,
    reshape,
    same_around,
)  # fmt: skip
from evokernel.generators.template_search.operators.elementwise import cast

EXACT = 2**24
"""Up to here float32, in which places are computed, has every whole number."""
SHARED = "shared"
"""What an index is called that is the same for everything around its axis."""


def placed(rows: object) -> Node:
    """Places as integers."""
    node = as_node(rows)
    return node if "int" in node.dtype else cast(node, "int64")


def picked(x: object, dim: object, rows: object, sparse_grad: object = False) -> Node:
    """`gather`: out[i][j][k] = x[i][rows[i][j][k]][k]."""
    node, places = as_node(x), placed(rows)
    axis = integer(dim) % len(node.shape)
    if not same_around(node.shape, places.shape, axis):
        raise NoSketch("elements picked from a part of a tensor")
    return Node("takealong", (node, places), places.shape, dims=(axis,), dtype=node.dtype)


def index_select(x: object, dim: object, rows: object) -> Node:
    """The same positions of an axis everywhere; along the first axis these are rows of a table."""
    node, places = as_node(x), placed(rows)
    axis = integer(dim) % len(node.shape)
    if axis == 0:
        return Node("gather", (node, places), (*places.shape, *node.shape[1:]), dtype=node.dtype)
    flat = reshape(places, (count(places.shape),))
    shape = (*node.shape[:axis], *flat.shape, *node.shape[axis + 1 :])
    found = Node("takealong", (node, flat), shape, SHARED, (axis,), dtype=node.dtype)
    return reshape(found, (*node.shape[:axis], *places.shape, *node.shape[axis + 1 :]))


def count(shape: tuple[Num, ...]) -> Num:
    """Number of elements."""
    total = Num.of(1)
    for n in shape:
        total = arithmetic("mul", total, n)
    return total


def subscript(x: object, places: object) -> Node:
    """`x[:, i, j]` with tensors for neighbouring axes: they are seen as one axis with one index."""
    node = as_node(x)
    listed = places if isinstance(places, tuple) else (places,)
    axes = [i for i, place in enumerate(listed) if place is not None]
    tensors = [as_node(listed[i]) for i in axes]
    if any(t.dtype == "bool" for t in tensors):
        raise NoSketch("elements picked by a mask")
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise NoSketch("an index for axes that are not neighbours")
    first, last = axes[0], axes[-1] + 1
    where = tensors[0]
    for axis, tensor in zip(axes[1:], tensors[1:]):
        where = apply("add", apply("mul", where, const(node.shape[axis])), tensor)
    total = count(node.shape[first:last])
    if len(tensors) > 1 and max(total.values) > EXACT:
        raise NoSketch("an index for several axes of more elements than floats can count")
    merged = reshape(node, (*node.shape[:first], total, *node.shape[last:]))
    return index_select(merged, first, where)


def scattered(kind: str) -> Callable[..., Node]:
    """`scatter` and `scatter_add`: out is x, but out[i][rows[i][j][k]][k] is, or grows by, source[i][j][k]."""

    def call(x: object, dim: object, rows: object, source: object, reduce: object = None) -> Node:
        node, places = as_node(x), placed(rows)
        axis = integer(dim) % len(node.shape)
        if reduce is not None or not isinstance(source, Node):
            raise NoSketch("a scatter of one number, or that multiplies")
        if not same_around(node.shape, places.shape, axis) or not same_around(source.shape, places.shape, None):
            raise NoSketch("a scatter into a part of a tensor")
        return Node("scatter", (node, places, source), node.shape, kind, (axis,), dtype=node.dtype)

    return call


def rows_scattered(kind: str) -> Callable[..., Node]:
    """`index_add` and `index_copy`: the same positions of an axis everywhere."""

    def call(x: object, dim: object, rows: object, source: object, alpha: object = 1) -> Node:
        node, places, more = as_node(x), placed(rows), as_node(source)
        axis = integer(dim) % len(node.shape)
        scaled = more if number(alpha).value == 1 else apply("mul", alpha, more)
        if not same_around(node.shape, more.shape, axis):
            raise NoSketch("a scatter into a part of a tensor")
        return Node("scatter", (node, places, scaled), node.shape, f"{SHARED} {kind}", (axis,), dtype=node.dtype)

    return call


def bag(table: object, rows: object, starts: object, *settings: object) -> object:
    """Rows of a table added up, averaged or their largest, so many to each result; settings: frequency, kind, sparse, weights."""
    weight, places, offsets = as_node(table), placed(rows), as_node(starts)
    kind = ("sum", "mean", "max")[integer(settings[1]) if len(settings) > 1 else 0]
    factors = settings[3] if len(settings) > 3 else None
    # Bags of one length start at multiples of it.
    if offsets.op == "index":
        each = Num.of(1)
    elif offsets.op == "mul" and offsets.args[0].op == "index" and offsets.args[1].op == "const":
        each = offsets.args[1].nums[0]
    else:
        raise NoSketch("bags of different lengths")
    if len(settings) > 5 and settings[5] is not None and integer(settings[5]) >= 0:
        raise NoSketch("bags in which some rows do not count")
    bags = offsets.shape[0]
    if (len(settings) > 4 and settings[4]) or not count(places.shape).same(arithmetic("mul", bags, each)):
        raise NoSketch("bags of different lengths")
    args = (weight, reshape(places, (bags, each)), *((reshape(as_node(factors), (bags, each)),) if factors is not None else ()))
    return (Node("bag", args, (bags, *weight.shape[1:]), kind),)


TABLE: Mapping[str, Callable[..., object]] = {
    "gather": picked, "take_along_dim": lambda x, rows, dim: picked(x, dim, rows), "index_select": index_select, "index": subscript,
    "scatter": scattered("set"), "scatter_add": scattered("add"), "index_add": rows_scattered("add"), "index_copy": rows_scattered("set"),
    "embedding_bag": bag, "_embedding_bag": bag,
}  # fmt: skip
