"""Lowerings of operators that rearrange elements (reshape, permute, slice, embedding) or depend on positions (tril, arange)."""

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
    calculate,
    in_memory,
    is_same_shape,
    make_const,
    make_index,
    normalize_axes,
    permute,
    reshape,
    squeeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import require_shape, transpose


def reshape_to_result(x: object, *settings: object, shape: object = None, **named: object) -> Node:
    """All operators that only reshape; the tracer knows the result's shape."""
    return reshape(as_node(x), require_shape(shape))


def expand(x: object, *settings: object, shape: object = None, **named: object) -> Node:
    """A broadcast, which costs nothing until its elements are needed."""
    node, result_shape = as_node(x), require_shape(shape)
    if is_same_shape(node.shape, result_shape):
        return node
    return Node("expand", (node,), result_shape, dtype=node.dtype)


def movedim(x: object, source: object, target: object) -> Node:
    """A node with some axes moved; the others keep their order."""
    node = as_node(x)
    rank = len(node.shape)
    sources, targets = ([as_integer(d) % rank for d in (v if isinstance(v, tuple) else (v,))] for v in (source, target))
    order = [i for i in range(rank) if i not in sources]
    for at, axis in sorted(zip(targets, sources)):
        order.insert(at, axis)
    return permute(node, tuple(order))


def flip(x: object, dims: object) -> Node:
    """A node reversed along some axes."""
    node = as_node(x)
    return Node("flip", (node,), node.shape, dims=normalize_axes(dims, len(node.shape)), dtype=node.dtype)


def slice_axis(x: object, dim: object = 0, start: object = None, end: object = None, step: object = 1, shape: object = None) -> Node:
    """A slice along one axis. The node's numbers: start and step."""
    node = as_node(x)
    axis = as_integer(dim) % len(node.shape)
    first = as_num(start) if start is not None else Num.of(0)
    if all(v < 0 for v in first.values):
        first = calculate("add", node.shape[axis], first)
    if is_same_shape(node.shape, require_shape(shape)):
        return node
    return Node("slice", (node,), require_shape(shape), dims=(axis,), nums=(first, as_num(step)), dtype=node.dtype)


def select_index(x: object, dim: object, at: object, shape: object = None) -> Node:
    """The element at one position of an axis, without that axis."""
    node = as_node(x)
    axis = as_integer(dim) % len(node.shape)
    one = (*node.shape[:axis], Num.of(1), *node.shape[axis + 1 :])
    return squeeze(slice_axis(node, axis, at, None, 1, shape=one), [axis])


def triangle_lowering(relation: str) -> Callable[..., Node]:
    """The lowering of `tril` or `triu`: zeros on one side of a diagonal."""

    def lower(x: object, diagonal_matrix: object = 0) -> Node:
        node = as_node(x)
        rank = len(node.shape)
        row, column = (make_index(node.shape, rank - 2), make_index(node.shape, rank - 1))
        by = as_num(diagonal_matrix)
        edge = row if by.is_literal and by.value == 0 else apply("add", row, make_const(by))
        if node.dtype == "bool":
            return apply("and", apply("le" if relation == "<=" else "ge", column, edge), node)
        return replace(apply("select", column, edge, node, 0.0), name=relation)

    return lower


def arange(*settings: object, shape: object = None, **named: object) -> Node:
    """start, start + step, ...: 0, 1, 2, ... by default."""
    (n,) = require_shape(shape)
    start, step = Num.of(0), Num.of(1)
    if len(settings) >= 2:
        start = as_num(settings[0])
        step = as_num(settings[2]) if len(settings) > 2 else step
    steps: Node = make_index((n,), 0)
    if not step.is_one:
        steps = apply("mul", steps, make_const(step))
    return steps if start.is_literal and start.value == 0 else apply("add", steps, make_const(start))


def fill_lowering(value: float | None) -> Callable[..., Node]:
    """The lowering of operators that fill a tensor with one number."""

    def lower(*settings: object, shape: object = None, dtypes: tuple[str, ...] = (), **named: object) -> Node:
        value_or_last = value if value is not None else settings[-1]
        node = as_node(value_or_last if not isinstance(value_or_last, bool) else float(value_or_last))
        dtype = "bool" if dtypes == ("bool",) else "float32"
        return Node("expand", (node,), require_shape(shape), dtype=dtype) if require_shape(shape) else node

    return lower


def embedding(table: object, rows: object, *settings: object) -> Node:
    """Rows of a table, selected by index."""
    weight, ids = as_node(table), as_node(rows)
    return Node("gather", (weight, ids), (*ids.shape, *weight.shape[1:]))


def diagonal_matrix(x: object) -> Node:
    """A diagonal matrix from a vector."""
    node = as_node(x)
    if len(node.shape) != 1:
        raise UnsupportedPattern("the diagonal of a matrix")
    n = node.shape[0]
    row, column = make_index((n, n), 0), make_index((n, n), 1)
    return apply("where", apply("eq", row, column), reshape(node, (n, Num.of(1))), 0.0)


def cat(tensors: object, dim: object = 0, shape: object = None) -> Node:
    """Tensors concatenated along an axis."""
    if not isinstance(tensors, tuple):
        raise UnsupportedPattern("a concatenation of something other than a list")
    nodes = tuple(in_memory(as_node(t)) for t in tensors)
    return Node("cat", nodes, require_shape(shape), dims=normalize_axes(dim, len(nodes[0].shape)), dtype=nodes[0].dtype)


def stack(tensors: object, dim: object = 0, shape: object = None) -> Node:
    """Tensors concatenated along a new axis."""
    if not isinstance(tensors, tuple):
        raise UnsupportedPattern("a stack of something other than a list")
    axis = as_integer(dim) % len(require_shape(shape))
    one = tuple(reshape(n := as_node(t), (*n.shape[:axis], Num.of(1), *n.shape[axis:])) for t in tensors)
    return cat(one, axis, shape=shape)


def as_rows(x: object) -> Node:
    """A vector as a matrix of one row; other tensors unchanged."""
    node = as_node(x)
    return node if len(node.shape) > 1 else reshape(node, (Num.of(1), *node.shape))


RESHAPES = ("reshape", "view", "flatten", "unflatten", "squeeze", "_unsafe_view", "view_as")
TABLE: Mapping[str, Callable[..., object]] = {
    **dict.fromkeys(RESHAPES, reshape_to_result), "expand": expand, "expand_as": expand, "broadcast_to": expand, "movedim": movedim,
    "broadcast_tensors": lambda tensors, shapes: tuple(expand(t, shape=shape) for t, shape in zip(tensors, shapes)),
    "permute": lambda x, dims: permute(as_node(x), normalize_permutation(dims, len(as_node(x).shape))), "flip": flip, "slice": slice_axis,
    "select": select_index, "tril": triangle_lowering("<="), "triu": triangle_lowering(">="), "arange": arange,
    "zeros": fill_lowering(0.0), "ones": fill_lowering(1.0),
    "new_zeros": fill_lowering(0.0), "new_ones": fill_lowering(1.0), "new_full": fill_lowering(None),
    "zeros_like": fill_lowering(0.0), "ones_like": fill_lowering(1.0), "full": fill_lowering(None), "full_like": fill_lowering(None),
    "embedding": embedding,
    "cat": cat, "stack": stack, "hstack": lambda tensors, shape: cat(tensors, int(len(shape) > 1), shape=shape),
    "vstack": lambda tensors, shape: cat(tuple(as_rows(t) for t in tensors), 0, shape=shape),
    "swapaxes": transpose, "swapdims": transpose, "dstack": lambda tensors, shape: cat(tensors, 2, shape=shape),
    **{f"atleast_{n}d": reshape_to_result for n in (1, 2, 3)},
}  # fmt: skip


def normalize_permutation(dims: object, rank: int) -> tuple[int, ...]:
    """A permutation as non-negative positions."""
    if not isinstance(dims, (tuple, list)):
        raise UnsupportedPattern("a permutation that is not a list")
    return tuple(as_integer(d) % rank for d in dims)
