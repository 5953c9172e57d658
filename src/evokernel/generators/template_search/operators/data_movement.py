"""What rearranges elements: shapes, axes, slices, rows by index; triangles, which are a choice by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from evokernel.generators.template_search.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    arithmetic,
    as_node,
    axes_of,
    const,
    equal_shapes,
    index,
    integer,
    number,
    permute,
    reshape,
    squeeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import traced


def shaped(x: object, *settings: object, shape: object = None, **named: object) -> Node:
    """Any way of saying reshape: the tracer knows the result's shape."""
    return reshape(as_node(x), traced(shape))


def expand(x: object, *settings: object, shape: object = None, **named: object) -> Node:
    """Stretched along axes of size one: as a broadcast, which costs nothing until it is needed."""
    node, wanted = as_node(x), traced(shape)
    if equal_shapes(node.shape, wanted):
        return node
    return Node("expand", (node,), wanted, dtype=node.dtype)


def movedim(x: object, source: object, target: object) -> Node:
    """Axes moved, the others in their order."""
    node = as_node(x)
    rank = len(node.shape)
    sources, targets = ([integer(d) % rank for d in (v if isinstance(v, tuple) else (v,))] for v in (source, target))
    order = [i for i in range(rank) if i not in sources]
    for at, axis in sorted(zip(targets, sources)):
        order.insert(at, axis)
    return permute(node, tuple(order))


def flip(x: object, dims: object) -> Node:
    """Reversed along axes."""
    node = as_node(x)
    return Node("flip", (node,), node.shape, dims=axes_of(dims, len(node.shape)), dtype=node.dtype)


def cut(x: object, dim: object = 0, start: object = None, end: object = None, step: object = 1, shape: object = None) -> Node:
    """A slice along one axis. Its numbers: where it starts, and the step."""
    node = as_node(x)
    axis = integer(dim) % len(node.shape)
    first = number(start) if start is not None else Num.of(0)
    if all(v < 0 for v in first.values):
        first = arithmetic("add", node.shape[axis], first)
    if equal_shapes(node.shape, traced(shape)):
        return node
    return Node("slice", (node,), traced(shape), dims=(axis,), nums=(first, number(step)), dtype=node.dtype)


def selected(x: object, dim: object, at: object, shape: object = None) -> Node:
    """One position of an axis."""
    node = as_node(x)
    axis = integer(dim) % len(node.shape)
    one = (*node.shape[:axis], Num.of(1), *node.shape[axis + 1 :])
    return squeeze(cut(node, axis, at, None, 1, shape=one), [axis])


def triangle(relation: str) -> Callable[..., Node]:
    """`tril` and `triu`: zero on one side of a diagonal."""

    def part(x: object, diagonal: object = 0) -> Node:
        node = as_node(x)
        rank = len(node.shape)
        row, column = (index(node.shape, rank - 2), index(node.shape, rank - 1))
        by = number(diagonal)
        edge = row if by.is_literal and by.value == 0 else apply("add", row, const(by))
        return replace(apply("select", column, edge, node, 0.0), name=relation)

    return part


def positions(*settings: object, shape: object = None, **named: object) -> Node:
    """0, 1, 2 and so on."""
    (n,) = traced(shape)
    start, step = Num.of(0), Num.of(1)
    if len(settings) >= 2:
        start = number(settings[0])
        step = number(settings[2]) if len(settings) > 2 else step
    counted: Node = index((n,), 0)
    if not step.is_one:
        counted = apply("mul", counted, const(step))
    return counted if start.is_literal and start.value == 0 else apply("add", counted, const(start))


def filled(value: float | None) -> Callable[..., Node]:
    """A tensor of one number."""

    def whole(*settings: object, shape: object = None, **named: object) -> Node:
        given = value if value is not None else settings[-1]
        node = as_node(given if not isinstance(given, bool) else float(given))
        return Node("expand", (node,), traced(shape)) if traced(shape) else node

    return whole


def embedding(table: object, rows: object, *settings: object) -> Node:
    """Rows of a table."""
    weight, ids = as_node(table), as_node(rows)
    return Node("gather", (weight, ids), (*ids.shape, *weight.shape[1:]))


def diagonal(x: object) -> Node:
    """A matrix from its diagonal."""
    node = as_node(x)
    if len(node.shape) != 1:
        raise NoSketch("the diagonal of a matrix")
    n = node.shape[0]
    row, column = index((n, n), 0), index((n, n), 1)
    return apply("where", apply("eq", row, column), reshape(node, (n, Num.of(1))), 0.0)


def cat(tensors: object, dim: object = 0, shape: object = None) -> Node:
    """One after the other along an axis."""
    if not isinstance(tensors, tuple):
        raise NoSketch("a concatenation of something else than a list")
    nodes = tuple(as_node(t) for t in tensors)
    return Node("cat", nodes, traced(shape), dims=axes_of(dim, len(nodes[0].shape)), dtype=nodes[0].dtype)


def stack(tensors: object, dim: object = 0, shape: object = None) -> Node:
    """One after the other along a new axis."""
    if not isinstance(tensors, tuple):
        raise NoSketch("a stack of something else than a list")
    axis = integer(dim) % len(traced(shape))
    one = tuple(reshape(n := as_node(t), (*n.shape[:axis], Num.of(1), *n.shape[axis:])) for t in tensors)
    return cat(one, axis, shape=shape)


SHAPED = ("reshape", "view", "flatten", "unflatten", "squeeze", "_unsafe_view", "view_as")
TABLE: Mapping[str, Callable[..., object]] = {
    **dict.fromkeys(SHAPED, shaped), "expand": expand, "expand_as": expand, "broadcast_to": expand, "movedim": movedim,
    "broadcast_tensors": lambda tensors, shapes: tuple(expand(t, shape=shape) for t, shape in zip(tensors, shapes)),
    "permute": lambda x, dims: permute(as_node(x), axes_in_order(dims, len(as_node(x).shape))), "flip": flip, "slice": cut,
    "select": selected, "tril": triangle("<="), "triu": triangle(">="), "arange": positions, "zeros": filled(0.0), "ones": filled(1.0),
    "new_zeros": filled(0.0), "new_ones": filled(1.0), "new_full": filled(None),
    "zeros_like": filled(0.0), "ones_like": filled(1.0), "full": filled(None), "full_like": filled(None), "embedding": embedding,
    "diag": diagonal, "cat": cat, "stack": stack,
}  # fmt: skip


def axes_in_order(dims: object, rank: int) -> tuple[int, ...]:
    """A permutation as non-negative positions."""
    if not isinstance(dims, (tuple, list)):
        raise NoSketch("a permutation that is no list")
    return tuple(integer(d) % rank for d in dims)
