"""Tensors taken to pieces and put together otherwise: parts along an axis, repeats, elements that go round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    NoSketch,
    Num,
    Shape,
    apply,
    arithmetic,
    as_node,
    index,
    integer,
    number,
    reshape,
    squeeze,
)
from evokernel.generators.template_search.operators.compute_intensive import traced
from evokernel.generators.template_search.operators.data_movement import cat, cut, expand


def parts(x: object, size: object = None, dim: object = 0, shapes: tuple[Shape, ...] = ()) -> tuple[Node, ...]:
    """`chunk` and `split`: one after the other along an axis; the tracer knows how long each is."""
    node = as_node(x)
    axis = integer(dim) % len(node.shape)
    found, start = [], Num.of(0)
    for shape in shapes:
        found.append(cut(node, axis, start, None, 1, shape=shape))
        start = arithmetic("add", start, shape[axis])
    return tuple(found)


def unbind(x: object, dim: object = 0, shapes: tuple[Shape, ...] = ()) -> tuple[Node, ...]:
    """Every position of an axis on its own."""
    node = as_node(x)
    axis = integer(dim) % len(node.shape)
    one = (*node.shape[:axis], Num.of(1), *node.shape[axis + 1 :])
    return tuple(squeeze(cut(node, axis, Num.of(i), None, 1, shape=one), [axis]) for i in range(len(shapes)))


def replaced(shape: Shape, axis: int, *extents: Num) -> Shape:
    """A shape with others in place of one axis."""
    return (*shape[:axis], *extents, *shape[axis + 1 :])


def repeat_interleave(x: object, repeats: object, dim: object = None, shape: object = None, **named: object) -> Node:
    """Every element so many times in a row."""
    node = as_node(x)
    if isinstance(repeats, Node) or dim is None:
        raise NoSketch("repeats that a tensor gives, or over all axes")
    axis, count = integer(dim) % len(node.shape), number(repeats)
    seen = reshape(node, replaced(node.shape, axis, node.shape[axis], Num.of(1)))
    return reshape(expand(seen, shape=replaced(node.shape, axis, node.shape[axis], count)), traced(shape))


def repeat(x: object, repeats: object, shape: object = None) -> Node:
    """The whole tensor so many times along each axis."""
    node = as_node(x)
    times = tuple(number(n) for n in (repeats if isinstance(repeats, tuple) else (repeats,)))
    sizes = (Num.of(1),) * (len(times) - len(node.shape)) + node.shape
    seen = reshape(node, tuple(n for size in sizes for n in (Num.of(1), size)))
    return reshape(expand(seen, shape=tuple(n for pair in zip(times, sizes) for n in pair)), traced(shape))


def roll(x: object, shifts: object, dims: object = ()) -> Node:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    node = as_node(x)
    steps, axes = (v if isinstance(v, tuple) else (v,) for v in (shifts, dims))
    if len(axes) != len(steps):
        raise NoSketch("a roll over all axes")
    for step, dim in zip(steps, axes):
        by, axis = number(step), integer(dim) % len(node.shape)
        n = node.shape[axis]
        if all(v == 0 for v in by.values):
            continue
        first = arithmetic("sub", Num.of(0), by) if all(v < 0 for v in by.values) else arithmetic("sub", n, by)
        rest = arithmetic("sub", n, first)
        pieces = ((first, rest), (Num.of(0), first))
        node = cat(
            tuple(cut(node, axis, at, None, 1, shape=replaced(node.shape, axis, long)) for at, long in pieces), axis, shape=node.shape
        )
    return node


def eye(n: object, *settings: object, shape: object = None, dtype: object = "float32", **named: object) -> Node:
    """Ones along the diagonal."""
    size = traced(shape)
    same = apply("eq", index(size, 0), index(size, 1))
    return same if dtype == "bool" else apply("where", same, 1.0, 0.0)


TABLE: Mapping[str, Callable[..., object]] = {
    "chunk": parts, "split": parts, "split_with_sizes": parts, "unbind": unbind, "repeat_interleave": repeat_interleave, "repeat": repeat,
    "roll": roll, "eye": eye, "narrow": lambda x, dim, start, length, shape=None: cut(x, dim, start, None, 1, shape=shape),
}  # fmt: skip
