"""Lowerings of operators that split, repeat or roll tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    Num,
    Shape,
    UnsupportedPattern,
    apply,
    as_integer,
    as_node,
    as_num,
    calculate,
    make_index,
    reshape,
    squeeze,
)
from evokernel.generators.template_search.operators.compute_intensive import require_shape
from evokernel.generators.template_search.operators.data_movement import cat, expand, slice_axis
from evokernel.generators.template_search.operators.indexing import count_elements


def split(x: object, size: object = None, dim: object = 0, shapes: tuple[Shape, ...] = ()) -> tuple[Node, ...]:
    """`chunk` and `split`: consecutive slices along an axis, with the traced shapes."""
    node = as_node(x)
    axis = as_integer(dim) % len(node.shape)
    pieces, start = [], Num.of(0)
    for shape in shapes:
        pieces.append(slice_axis(node, axis, start, None, 1, shape=shape))
        start = calculate("add", start, shape[axis])
    return tuple(pieces)


def unbind(x: object, dim: object = 0, shapes: tuple[Shape, ...] = ()) -> tuple[Node, ...]:
    """One tensor per position of an axis."""
    node = as_node(x)
    axis = as_integer(dim) % len(node.shape)
    one = (*node.shape[:axis], Num.of(1), *node.shape[axis + 1 :])
    return tuple(squeeze(slice_axis(node, axis, Num.of(i), None, 1, shape=one), [axis]) for i in range(len(shapes)))


def replace_axis(shape: Shape, axis: int, *extents: Num) -> Shape:
    """A shape with one axis replaced by other extents."""
    return (*shape[:axis], *extents, *shape[axis + 1 :])


def repeat_interleave(x: object, repeats: object, dim: object = None, shape: object = None, **named: object) -> Node:
    """Every element `repeats` times in a row."""
    node = as_node(x)
    if isinstance(repeats, Node):
        raise UnsupportedPattern("repeats given by a tensor")
    if dim is None:
        return repeat_interleave(reshape(node, (count_elements(node.shape),)), repeats, 0, shape=shape)
    axis, count = as_integer(dim) % len(node.shape), as_num(repeats)
    with_unit_axis = reshape(node, replace_axis(node.shape, axis, node.shape[axis], Num.of(1)))
    return reshape(expand(with_unit_axis, shape=replace_axis(node.shape, axis, node.shape[axis], count)), require_shape(shape))


def repeat(x: object, repeats: object, shape: object = None) -> Node:
    """The tensor repeated along each axis."""
    node = as_node(x)
    times = tuple(as_num(n) for n in (repeats if isinstance(repeats, tuple) else (repeats,)))
    sizes = (Num.of(1),) * (len(times) - len(node.shape)) + node.shape
    with_unit_axis = reshape(node, tuple(n for size in sizes for n in (Num.of(1), size)))
    return reshape(expand(with_unit_axis, shape=tuple(n for pair in zip(times, sizes) for n in pair)), require_shape(shape))


def roll(x: object, shifts: object, dims: object = ()) -> Node:
    """Elements shifted along axes, with wraparound."""
    node = as_node(x)
    steps, axes = (v if isinstance(v, tuple) else (v,) for v in (shifts, dims))
    if len(axes) != len(steps):
        raise UnsupportedPattern("a roll over all axes")
    for step, dim in zip(steps, axes):
        by, axis = as_num(step), as_integer(dim) % len(node.shape)
        n = node.shape[axis]
        if all(v == 0 for v in by.values):
            continue
        first = calculate("sub", Num.of(0), by) if all(v < 0 for v in by.values) else calculate("sub", n, by)
        rest = calculate("sub", n, first)
        pieces = ((first, rest), (Num.of(0), first))
        node = cat(
            tuple(slice_axis(node, axis, at, None, 1, shape=replace_axis(node.shape, axis, long)) for at, long in pieces),
            axis,
            shape=node.shape,
        )
    return node


def eye(n: object, *settings: object, shape: object = None, dtype: object = "float32", **named: object) -> Node:
    """Ones along the diagonal."""
    size = require_shape(shape)
    same = apply("eq", make_index(size, 0), make_index(size, 1))
    return same if dtype == "bool" else apply("where", same, 1.0, 0.0)


def diff(x: object, n: object = 1, dim: object = -1, *ends: object) -> Node:
    """Differences of neighbours along an axis."""
    node = as_node(x)
    if as_integer(n) != 1 or any(end is not None for end in ends):
        raise UnsupportedPattern("differences of higher order")
    axis = as_integer(dim) % len(node.shape)
    shape = replace_axis(node.shape, axis, calculate("sub", node.shape[axis], Num.of(1)))
    return apply("sub", *(slice_axis(node, axis, Num.of(start), None, 1, shape=shape) for start in (1, 0)))


TABLE: Mapping[str, Callable[..., object]] = {
    "chunk": split, "split": split, "split_with_sizes": split, "unbind": unbind, "repeat_interleave": repeat_interleave, "repeat": repeat,
    "roll": roll, "eye": eye, "diff": diff,
    "narrow": lambda x, dim, start, length, shape=None: slice_axis(x, dim, start, None, 1, shape=shape),
}  # fmt: skip
