"""Lowerings of operators that read positions computed from the position in the result: padding, windows, diagonals, pixel shuffles."""

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
    make_const,
    make_index,
    permute,
    reshape,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import per_axis_nums, require_shape
from evokernel.generators.template_search.operators.data_movement import diagonal_matrix, expand
from evokernel.generators.template_search.operators.elementwise import clamp, remainder
from evokernel.generators.template_search.operators.indexing import index_select
from evokernel.generators.template_search.operators.split_join import repeat

ONE = Num.of(1)


def pad_axis(node: Node, axis: int, before: Num, after: Num, mode: str, value: object) -> Node:
    """A node padded along one axis."""
    n = node.shape[axis]
    extent = calculate("add", calculate("add", n, before), after)
    position = make_index((extent,), 0)
    source = apply("sub", position, make_const(before))
    last = make_const(calculate("sub", n, ONE))
    if mode == "reflect":
        places = apply("sub", last, apply("abs", apply("sub", last, apply("abs", source))))
    elif mode == "circular":
        places = remainder(source, make_const(n))
    else:
        places = clamp(source, 0.0, last)
    picked = index_select(node, axis, places)
    if mode != "constant":
        return picked
    along = make_index(picked.shape, axis)
    inside = apply("and", apply("ge", along, make_const(before)), apply("lt", along, make_const(calculate("add", before, n))))
    return apply("where", inside, picked, value)


def pad(x: object, widths: object, mode: object = "constant", value: object = None) -> Node:
    """Padding with a number, or with elements of the tensor; widths begin with the last axis."""
    node = as_node(x)
    if not isinstance(widths, tuple) or mode not in ("constant", "reflect", "replicate", "circular"):
        raise UnsupportedPattern(f"padding by {mode}")
    nums = [as_num(width) for width in widths]
    for i, (before, after) in enumerate(zip(nums[::2], nums[1::2])):
        if any((*before.values, *after.values)):
            node = pad_axis(node, len(node.shape) - 1 - i, before, after, str(mode), 0.0 if value is None else value)
    return node


def window_places(windows: Num, size: Num, step: Num, dilation: Num = ONE) -> Node:
    """The positions of all elements of all windows along an axis: one row per window."""
    first, offset = make_index((windows, size), 0), make_index((windows, size), 1)
    return apply("add", apply("mul", first, make_const(step)), apply("mul", offset, make_const(dilation)))


def unfold(x: object, dim: object, size: object, step: object, shape: object = None) -> Node:
    """Windows along an axis; the elements of a window are along a new last axis."""
    node, result = as_node(x), require_shape(shape)
    axis = as_integer(dim) % len(node.shape)
    windows = index_select(node, axis, window_places(result[axis], as_num(size), as_num(step)))
    rank = len(windows.shape)
    return permute(windows, (*(i for i in range(rank) if i != axis + 1), axis + 1))


def im2col(x: object, kernel: object, dilation: object, padding: object, stride: object) -> Node:
    """Patches of an image as columns."""
    node = as_node(x)
    if len(node.shape) != 4:
        raise UnsupportedPattern("patches of an image without a batch axis")
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (per_axis_nums(v, 2) for v in (kernel, dilation, padding, stride))
    image = pad(node, (pw, pw, ph, ph))
    for axis, (k, d, s) in ((2, (kh, dh, sh)), (4, (kw, dw, sw))):
        span = calculate("add", calculate("mul", d, calculate("sub", k, ONE)), ONE)
        windows = calculate("add", calculate("floordiv", calculate("sub", image.shape[axis], span), s), ONE)
        image = index_select(image, axis, window_places(windows, k, s, d))
    batch, channels, rows, _, columns, _ = image.shape
    depth, count = calculate("mul", channels, calculate("mul", kh, kw)), calculate("mul", rows, columns)
    return reshape(permute(image, (0, 1, 3, 5, 2, 4)), (batch, depth, count))


def pixel_shuffle(x: object, factor: object, shape: object = None) -> Node:
    """Channels moved into the image: each group of factor^2 channels becomes one channel."""
    node, r = as_node(x), as_num(factor)
    *lead, channels, height, width = node.shape
    out = calculate("floordiv", channels, calculate("mul", r, r))
    rank = len(lead)
    parts = reshape(node, (*lead, out, r, r, height, width))
    order = (*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2)
    return reshape(permute(parts, order), require_shape(shape))


def pixel_unshuffle(x: object, factor: object, shape: object = None) -> Node:
    """Blocks of the image moved into channels."""
    node, r = as_node(x), as_num(factor)
    *lead, channels, height, width = node.shape
    rank = len(lead)
    parts = reshape(node, (*lead, channels, calculate("floordiv", height, r), r, calculate("floordiv", width, r), r))
    order = (*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3)
    return reshape(permute(parts, order), require_shape(shape))


def diagonal(x: object, offset: object = 0, dim1: object = 0, dim2: object = 1, shape: object = None) -> Node:
    """The diagonal of the last two axes."""
    node = as_node(x)
    rank, by = len(node.shape), as_integer(offset)
    if (as_integer(dim1) % rank, as_integer(dim2) % rank) != (rank - 2, rank - 1):
        raise UnsupportedPattern("a diagonal of other than the last two axes")
    n, m = node.shape[-2:]
    merged = reshape(node, (*node.shape[:-2], calculate("mul", n, m)))
    step = make_const(calculate("add", m, ONE))
    start = make_const(Num.of(by) if by >= 0 else calculate("mul", Num.of(-by), m))
    position = make_index((require_shape(shape)[-1],), 0)
    return index_select(merged, rank - 2, apply("add", apply("mul", position, step), start))


def diag_embed(x: object, offset: object = 0, dim1: object = -2, dim2: object = -1) -> Node:
    """Matrices whose diagonal is the last axis."""
    node = as_node(x)
    if (as_integer(offset), as_integer(dim1), as_integer(dim2)) != (0, -2, -1):
        raise UnsupportedPattern("diagonal matrices with an offset or along other axes")
    shape = (*node.shape, node.shape[-1])
    rank = len(shape)
    same = apply("eq", make_index(shape, rank - 2), make_index(shape, rank - 1))
    return apply("where", same, reshape(node, (*node.shape, ONE)), 0.0)


def diag(x: object, offset: object = 0, shape: object = None) -> Node:
    """A diagonal matrix from a vector, or the diagonal of a matrix."""
    return diagonal(x, offset, 0, 1, shape=shape) if len(as_node(x).shape) == 2 else diagonal_matrix(x)


def tile(x: object, repeats: object, shape: object = None) -> Node:
    """The tensor repeated along its last axes."""
    times = repeats if isinstance(repeats, tuple) else (repeats,)
    return repeat(x, (*(ONE,) * (len(as_node(x).shape) - len(times)), *times), shape=shape)


def meshgrid(tensors: object, indexing: object = "ij", shapes: tuple[Shape, ...] = ()) -> tuple[Node, ...]:
    """Coordinates of a grid."""
    if not isinstance(tensors, tuple) or indexing != "ij":
        raise UnsupportedPattern("a grid in xy order")
    rank = len(tensors)
    axes = [reshape(as_node(t), tuple(as_node(t).shape[0] if j == i else ONE for j in range(rank))) for i, t in enumerate(tensors)]
    return tuple(expand(axis, shape=shape) for axis, shape in zip(axes, shapes))


TABLE: Mapping[str, Callable[..., object]] = {
    "pad": pad, "constant_pad_nd": lambda x, widths, value=0.0: pad(x, widths, "constant", value), "unfold": unfold, "im2col": im2col,
    **{f"reflection_pad{n}d": lambda x, widths: pad(x, widths, "reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": lambda x, widths: pad(x, widths, "replicate") for n in (1, 2, 3)},
    "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle, "diagonal": diagonal, "diag_embed": diag_embed, "diag": diag,
    "tile": tile, "meshgrid": meshgrid,
}  # fmt: skip
