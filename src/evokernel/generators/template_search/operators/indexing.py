"""Lowerings of operators that read, write or add elements at positions given by index tensors. The task guarantees valid indices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from evokernel.generators.template_search.graph import (
    Node,
    Num,
    UnsupportedPattern,
    apply,
    as_integer,
    as_node,
    as_num,
    broadcast_shapes,
    calculate,
    in_memory,
    is_same_shape_except,
    make_const,
    make_index,
    reshape,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import expand_to
from evokernel.generators.template_search.operators.data_movement import slice_axis
from evokernel.generators.template_search.operators.elementwise import cast

EXACT = 2**24
"""Up to here float32, in which indices are computed, represents every integer."""
SHARED = "shared"
"""The name of a node whose index is the same for all positions of the other axes."""


def as_indices(rows: object) -> Node:
    """A value as integer indices."""
    node = as_node(rows)
    return node if "int" in node.dtype and node.op != "index" else replace(apply("cast", node), name="int64", dtype="int64")


def gather(x: object, dim: object, rows: object, sparse_grad: object = False) -> Node:
    """`gather`: out[i][j][k] = x[i][rows[i][j][k]][k]."""
    node, places = in_memory(as_node(x)), as_indices(rows)
    axis = as_integer(dim) % len(node.shape)
    for other, n in enumerate(places.shape):
        if other != axis and not n.is_same(node.shape[other]):
            node = slice_axis(node, other, Num.of(0), None, 1, shape=(*node.shape[:other], n, *node.shape[other + 1 :]))
    return Node("takealong", (node, places), places.shape, dims=(axis,), dtype=node.dtype)


def take_along(x: object, rows: object, dim: object = None) -> Node:
    """`take_along_dim`: like `gather`, but both tensors broadcast along the other axes."""
    if dim is None:
        raise UnsupportedPattern("take_along_dim() without an axis")
    node, places = as_node(x), as_indices(rows)
    axis = as_integer(dim) % len(node.shape)
    without_axis = [(*shape[:axis], Num.of(1), *shape[axis + 1 :]) for shape in (node.shape, places.shape)]
    full = broadcast_shapes(*without_axis)
    node, places = (expand_to(t, (*full[:axis], t.shape[axis], *full[axis + 1 :])) for t in (node, places))
    return gather(node, axis, places)


def index_select(x: object, dim: object, rows: object) -> Node:
    """The given positions of an axis; along the first axis, rows of a table."""
    node, places = in_memory(as_node(x)), as_indices(rows)
    axis = as_integer(dim) % len(node.shape)
    if axis == 0:
        return Node("gather", (node, places), (*places.shape, *node.shape[1:]), dtype=node.dtype)
    flat = reshape(places, (count_elements(places.shape),))
    shape = (*node.shape[:axis], *flat.shape, *node.shape[axis + 1 :])
    selection = Node("takealong", (node, flat), shape, SHARED, (axis,), dtype=node.dtype)
    return reshape(selection, (*node.shape[:axis], *places.shape, *node.shape[axis + 1 :]))


def count_elements(shape: tuple[Num, ...]) -> Num:
    """Number of elements."""
    total = Num.of(1)
    for n in shape:
        total = calculate("mul", total, n)
    return total


def advanced_index(x: object, places: object) -> Node:
    """`x[:, i, j]` with index tensors for neighbouring axes, which are merged into one axis with one index."""
    node = as_node(x)
    indices = places if isinstance(places, tuple) else (places,)
    axes = [i for i, place in enumerate(indices) if place is not None]
    tensors = [as_node(indices[i]) for i in axes]
    if any(t.dtype == "bool" for t in tensors):
        raise UnsupportedPattern("elements selected by a mask")
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise UnsupportedPattern("an index for axes that are not neighbours")
    first, last = axes[0], axes[-1] + 1
    where = tensors[0]
    for axis, tensor in zip(axes[1:], tensors[1:]):
        where = apply("add", apply("mul", where, make_const(node.shape[axis])), tensor)
    total = count_elements(node.shape[first:last])
    if len(tensors) > 1 and max(total.values) > EXACT:
        raise UnsupportedPattern("an index over several axes with more elements than float32 can count")
    merged_axes = reshape(node, (*node.shape[:first], total, *node.shape[last:]))
    return index_select(merged_axes, first, where)


def one_hot(x: object, classes: object = -1, shape: tuple[Num, ...] = ()) -> Node:
    """1 at the position that each element names along a new last axis, 0 elsewhere."""
    return cast(apply("eq", unsqueeze(as_node(x), -1), make_index(shape, len(shape) - 1)), "int64")


def scatter_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of `scatter` or `scatter_add`: x with out[i][rows[i][j][k]][k] = (or +=) source[i][j][k]."""

    def lower(x: object, dim: object, rows: object, source: object, reduce: object = None) -> Node:
        node, places = as_node(x), as_indices(rows)
        axis = as_integer(dim) % len(node.shape)
        if reduce is not None:
            raise UnsupportedPattern("a scatter that adds or multiplies")
        if not isinstance(source, Node):
            source = Node("expand", (as_node(source),), places.shape)
        node, source = in_memory(node), in_memory(source)
        if not is_same_shape_except(node.shape, places.shape, axis) or not is_same_shape_except(source.shape, places.shape, None):
            raise UnsupportedPattern("a scatter into part of a tensor")
        return Node("scatter", (node, places, source), node.shape, kind, (axis,), dtype=node.dtype)

    return lower


def index_scatter_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of `index_add` or `index_copy`: one index for all positions of the other axes."""

    def lower(x: object, dim: object, rows: object, source: object, alpha: object = 1) -> Node:
        node, places, more = as_node(x), as_indices(rows), as_node(source)
        axis = as_integer(dim) % len(node.shape)
        scaled_source = in_memory(more) if as_num(alpha).value == 1 else apply("mul", alpha, more)
        node = in_memory(node)
        if not is_same_shape_except(node.shape, more.shape, axis):
            raise UnsupportedPattern("a scatter into part of a tensor")
        return Node("scatter", (node, places, scaled_source), node.shape, f"{SHARED} {kind}", (axis,), dtype=node.dtype)

    return lower


def embedding_bag(table: object, rows: object, starts: object, *settings: object) -> object:
    """The sum, mean or maximum of bags of table rows, all of one length; settings: frequency, kind, sparse, weights."""
    weight, places, offsets = as_node(table), as_indices(rows), as_node(starts)
    kind = ("sum", "mean", "max")[as_integer(settings[1]) if len(settings) > 1 else 0]
    factors = settings[3] if len(settings) > 3 else None
    # Bags of one length start at multiples of it.
    if offsets.op == "index":
        each = Num.of(1)
    elif offsets.op == "mul" and offsets.args[0].op == "index" and offsets.args[1].op == "const":
        each = offsets.args[1].nums[0]
    else:
        raise UnsupportedPattern("bags of different lengths")
    if len(settings) > 5 and settings[5] is not None and as_integer(settings[5]) >= 0:
        raise UnsupportedPattern("bags with a padding index")
    bags = offsets.shape[0]
    if (len(settings) > 4 and settings[4]) or not count_elements(places.shape).is_same(calculate("mul", bags, each)):
        raise UnsupportedPattern("bags of different lengths")
    args = (weight, reshape(places, (bags, each)), *((reshape(as_node(factors), (bags, each)),) if factors is not None else ()))
    return (Node("bag", args, (bags, *weight.shape[1:]), kind),)


TABLE: Mapping[str, Callable[..., object]] = {
    "gather": gather, "take_along_dim": take_along, "index_select": index_select, "index": advanced_index,
    "scatter": scatter_lowering("set"), "scatter_add": scatter_lowering("add"), "index_add": index_scatter_lowering("add"),
    "index_copy": index_scatter_lowering("set"),
    "one_hot": one_hot, "embedding_bag": embedding_bag, "_embedding_bag": embedding_bag,
}  # fmt: skip
