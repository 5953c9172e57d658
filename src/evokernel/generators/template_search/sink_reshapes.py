"""Moves reshapes towards the outputs, so that steps on both sides of one can become one kernel: a reshape moves no element."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.graph import Node, NoSketch, Num, Shape, aligned, equal_shapes, reduce, reshape, walk

Segments = list[tuple[list[int], list[int]]]
"""Axes of one shape and those of another that hold the same elements."""


def settled(outputs: tuple[Node, ...]) -> tuple[tuple[Node, ...], dict[Node, Node]]:
    """The same outputs with reshapes as late as possible, and what became of each node."""
    made: dict[Node, Node] = {}
    for node in walk(*outputs):
        args = tuple(made[a] for a in node.args)
        made[node] = later(node if args == node.args else remade(node, args))
    return tuple(made[o] for o in outputs), made


def remade(node: Node, args: tuple[Node, ...]) -> Node:
    """A node with other arguments."""
    return reshape(args[0], node.shape) if node.op == "reshape" else replace(node, args=args)


def later(node: Node) -> Node:
    """A step on reshaped values as a reshape of the step, where that is the same."""
    if node.is_elementwise:
        args = tuple(a.args[0] if is_single(a, len(node.shape)) else a for a in node.args)
        node = node if args == node.args else replace(node, args=args)
    turned = [a for a in node.args if a.op == "reshape"]
    if not turned:
        return node
    try:
        whole = [a for a in turned if equal_shapes(a.shape, node.shape)]
        if node.is_elementwise and whole:
            return swapped(node, whole[0])
        if node.op == "reduce":
            return reduced(node, turned[0])
    except NoSketch:
        pass
    return node


def is_single(node: Node, rank: int) -> bool:
    """Whether a value of one element broadcasts to so many axes as it was before it was reshaped."""
    return node.op == "reshape" and len(node.args[0].shape) <= rank and all(n.is_one for n in node.args[0].shape)


def swapped(node: Node, turned: Node) -> Node:
    """An elementwise step in the shape its first reshaped argument had before."""
    inner, parts = turned.args[0], segments(turned.args[0].shape, node.shape)
    args = tuple(as_before(a, inner.shape, len(node.shape), parts) if a.shape or a.op == "reshape" else a for a in node.args)
    return reshape(replace(node, args=args, shape=inner.shape), node.shape)


def as_before(node: Node, shape: Shape, rank: int, parts: Segments) -> Node:
    """A value that broadcasts to the new shape, made to broadcast to the old one."""
    sizes = aligned(node.shape, rank)
    out: list[Num] = []
    for old, new in parts:
        some = [not sizes[i].is_one for i in new]
        if any(some) and not covers(sizes, new, shape, old):
            raise NoSketch("a value that stretches within merged axes")
        out += [shape[i] if any(some) else Num.of(1) for i in old]
    return reshape(node, tuple(out))


def covers(sizes: Shape, new: list[int], shape: Shape, old: list[int]) -> bool:
    """Whether a value has all elements of a segment."""
    return values(sizes, new) == values(shape, old)


def values(shape: Shape, axes: list[int]) -> tuple[float, ...]:
    """The product of some extents at each size."""
    n = max((len(shape[i].values) for i in axes), default=1)
    total = [1.0] * n
    for i in axes:
        at = shape[i].values
        total = [t * at[j if len(at) > 1 else 0] for j, t in enumerate(total)]
    return tuple(total) if len(set(total)) > 1 else (total[0],)


def reduced(node: Node, turned: Node) -> Node:
    """A reduction over whole segments as one over the axes from before."""
    if node.name.startswith("arg"):
        return node
    inner, parts = turned.args[0], segments(turned.args[0].shape, turned.shape)
    axes: list[int] = []
    for old, new in parts:
        some = [i in node.dims for i in new if not turned.shape[i].is_one]
        if any(some) and not all(some):
            raise NoSketch("a reduction over part of merged axes")
        axes += old if any(some) else []
    if not axes:
        return node
    return reshape(reduce(node.name, inner, tuple(axes), True), node.shape)


def segments(old: Shape, new: Shape) -> Segments:
    """The smallest runs of axes with the same elements; raises NoSketch where extents do not divide up."""
    found: Segments = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        while values(old, left) != values(new, right):
            a, b = values(old, left)[0], values(new, right)[0]
            if a < b and i < len(old):
                left.append(i)
                i += 1
            elif b < a and j < len(new):
                right.append(j)
                j += 1
            elif i < len(old) and old[i].is_one:
                left.append(i)
                i += 1
            elif j < len(new) and new[j].is_one:
                right.append(j)
                j += 1
            else:
                raise NoSketch("a reshape across axes")
        found.append((left, right))
    return found
