"""Moves reshapes towards the outputs, so that one kernel can cover the steps on both sides: a reshape moves no elements."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.graph import Node, Num, Shape, UnsupportedPattern, is_same_shape, pad_rank, reduce, reshape, walk

Segments = list[tuple[list[int], list[int]]]
"""Pairs of axes of one shape and axes of another that cover the same elements."""


def sink_reshapes(outputs: tuple[Node, ...]) -> tuple[tuple[Node, ...], dict[Node, Node]]:
    """The same outputs with reshapes as late as possible, and the replacement of each node."""
    replacements: dict[Node, Node] = {}
    for node in walk(*outputs):
        args = tuple(replacements[a] for a in node.args)
        replacements[node] = sink_below(node if args == node.args else replace_args(node, args))
    return tuple(replacements[o] for o in outputs), replacements


def replace_args(node: Node, args: tuple[Node, ...]) -> Node:
    """A node with other arguments."""
    return reshape(args[0], node.shape) if node.op == "reshape" else replace(node, args=args)


def sink_below(node: Node) -> Node:
    """A step on reshaped values as a reshape of the step's result, if that is equivalent."""
    if node.is_elementwise:
        args = tuple(a.args[0] if is_reshaped_scalar(a, len(node.shape)) else a for a in node.args)
        node = node if args == node.args else replace(node, args=args)
    reshaped = [a for a in node.args if a.op == "reshape"]
    if not reshaped:
        return node
    try:
        full_size = [a for a in reshaped if is_same_shape(a.shape, node.shape)]
        if node.is_elementwise and full_size:
            return sink_below_elementwise(node, full_size[0])
        if node.op == "reduce":
            return sink_below_reduction(node, reshaped[0])
    except UnsupportedPattern:
        pass
    return node


def is_reshaped_scalar(node: Node, rank: int) -> bool:
    """Whether a node reshapes a value of one element that broadcasts to `rank` axes without the reshape."""
    return node.op == "reshape" and len(node.args[0].shape) <= rank and all(n.is_one for n in node.args[0].shape)


def sink_below_elementwise(node: Node, reshaped: Node) -> Node:
    """An elementwise step computed in the shape that a reshaped argument had before, then reshaped."""
    inner, parts = reshaped.args[0], matching_segments(reshaped.args[0].shape, node.shape)
    args = tuple(reshape_operand(a, inner.shape, len(node.shape), parts) if a.shape or a.op == "reshape" else a for a in node.args)
    return reshape(replace(node, args=args, shape=inner.shape), node.shape)


def reshape_operand(node: Node, shape: Shape, rank: int, parts: Segments) -> Node:
    """A value that broadcasts to the new shape, reshaped so that it broadcasts to the old one."""
    sizes = pad_rank(node.shape, rank)
    out: list[Num] = []
    for old, new in parts:
        is_present = [not sizes[i].is_one for i in new]
        if any(is_present) and not covers_segment(sizes, new, shape, old):
            raise UnsupportedPattern("a value that broadcasts within merged axes")
        out += [shape[i] if any(is_present) else Num.of(1) for i in old]
    return reshape(node, tuple(out))


def covers_segment(sizes: Shape, new: list[int], shape: Shape, old: list[int]) -> bool:
    """Whether a value has all elements of a segment and does not broadcast within it."""
    return extent_products(sizes, new) == extent_products(shape, old)


def extent_products(shape: Shape, axes: list[int]) -> tuple[float, ...]:
    """The product of the extents of some axes at each size."""
    n = max((len(shape[i].values) for i in axes), default=1)
    total = [1.0] * n
    for i in axes:
        at = shape[i].values
        total = [t * at[j if len(at) > 1 else 0] for j, t in enumerate(total)]
    return tuple(total) if len(set(total)) > 1 else (total[0],)


def sink_below_reduction(node: Node, reshaped: Node) -> Node:
    """A reduction over complete segments as a reduction over the axes before the reshape, then reshaped."""
    if node.name.startswith("arg"):
        return node
    inner, parts = reshaped.args[0], matching_segments(reshaped.args[0].shape, reshaped.shape)
    axes: list[int] = []
    for old, new in parts:
        is_present = [i in node.dims for i in new if not reshaped.shape[i].is_one]
        if any(is_present) and not all(is_present):
            raise UnsupportedPattern("a reduction over part of merged axes")
        axes += old if any(is_present) else []
    if not axes:
        return node
    return reshape(reduce(node.name, inner, tuple(axes), True), node.shape)


def matching_segments(old: Shape, new: Shape) -> Segments:
    """The smallest groups of neighbouring axes that cover the same elements; raises UnsupportedPattern if there are none."""
    segments: Segments = []
    i = j = 0
    while i < len(old) or j < len(new):
        old_axes, new_axes = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(old_axes), j + len(new_axes)
        while extent_products(old, old_axes) != extent_products(new, new_axes):
            a, b = extent_products(old, old_axes)[0], extent_products(new, new_axes)[0]
            if a < b and i < len(old):
                old_axes.append(i)
                i += 1
            elif b < a and j < len(new):
                new_axes.append(j)
                j += 1
            elif i < len(old) and old[i].is_one:
                old_axes.append(i)
                i += 1
            elif j < len(new) and new[j].is_one:
                new_axes.append(j)
                j += 1
            else:
                raise UnsupportedPattern("a reshape across axes")
        segments.append((old_axes, new_axes))
    return segments
