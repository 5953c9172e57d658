"""Lowerings of matrix products, convolutions, poolings and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
    is_same_shape,
    make_index,
    make_select,
    permute,
    reshape,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.reductions import as_channel_vector, softmax


def matmul(a: object, b: object) -> Node:
    """Matrix product over the last two axes; batch axes are equal, broadcast or missing, and vectors count as rows or columns."""
    lhs, rhs = in_memory(as_node(a)), in_memory(as_node(b))
    if len(lhs.shape) == 1:
        return drop_axis(matmul(unsqueeze(lhs, 0), rhs), -2)
    if len(rhs.shape) == 1:
        return drop_axis(matmul(lhs, unsqueeze(rhs, 1)), -1)
    if not lhs.shape[-1].is_same(rhs.shape[-2]):
        raise UnsupportedPattern("a product whose inner extents differ")
    batch = broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    if len(rhs.shape) > 2 and not is_same_shape(lhs.shape[:-2], rhs.shape[:-2]):
        lhs, rhs = (expand_to(x, (*batch, *x.shape[-2:])) for x in (lhs, rhs))
    return Node("matmul", (lhs, rhs), (*batch, lhs.shape[-2], rhs.shape[-1]))


def expand_to(node: Node, shape: tuple[Num, ...]) -> Node:
    """A node expanded to a shape."""
    return node if is_same_shape(node.shape, shape) else Node("expand", (node,), shape, dtype=node.dtype)


def drop_axis(node: Node, axis: int) -> Node:
    """A node without one of its axes, which has size one."""
    at = axis % len(node.shape)
    return reshape(node, (*node.shape[:at], *node.shape[at + 1 :]))


def transpose(x: object, dim0: object = 0, dim1: object = 1) -> Node:
    """A node with two axes exchanged."""
    node = as_node(x)
    order = list(range(len(node.shape)))
    a, b = (as_integer(d) % len(order) for d in (dim0, dim1))
    order[a], order[b] = order[b], order[a]
    return permute(node, tuple(order))


def linear(x: object, weight: object, bias: object = None) -> Node:
    """x @ weight.T + bias."""
    product = matmul(x, transpose(weight, -2, -1))
    return product if bias is None else apply("add", product, bias)


def addmm(c: object, a: object, b: object, beta: object = 1, alpha: object = 1) -> Node:
    """beta * c + alpha * a @ b."""
    product, rest = matmul(a, b), as_node(c)
    scaled_product = product if as_num(alpha).value == 1 else apply("mul", alpha, product)
    return apply("add", scaled_product, rest if as_num(beta).value == 1 else apply("mul", beta, rest))


def attention(
    q: object, k: object, v: object, mask: object = None, dropout: object = 0.0, causal: object = False, scale: object = None,
    enable_gqa: object = False,
) -> Node:  # fmt: skip
    """softmax(q k' * scale + mask) v; with `causal`, keys after the query's position are masked."""
    query, key, value = as_node(q), as_node(k), as_node(v)
    if enable_gqa:
        key, value = (repeat_heads(x, query.shape[-3]) for x in (key, value))
    width = query.shape[-1]
    factor = as_num(scale) if scale is not None else Num(tuple(n**-0.5 for n in width.values), "rsqrt", (width,), is_integer=False)
    scores = apply("mul", matmul(query, transpose(key, -2, -1)), factor)
    if causal:
        rank = len(scores.shape)
        scores = make_select("<=", make_index(scores.shape, rank - 1), make_index(scores.shape, rank - 2), scores, float("-inf"))
    if isinstance(mask, Node):
        scores = apply("where", mask, scores, float("-inf")) if mask.dtype == "bool" else apply("add", scores, mask)
    return matmul(softmax(scores), value)


def repeat_heads(node: Node, heads: Num) -> Node:
    """Keys or values with every head repeated for its group of queries."""
    *batch, own, n, d = node.shape
    each = calculate("floordiv", heads, own)
    apart = reshape(node, (*batch, own, Num.of(1), n, d))
    return reshape(expand_to(apart, (*batch, own, each, n, d)), (*batch, heads, n, d))


def per_axis_nums(value: object, rank: int) -> tuple[Num, ...]:
    """One number per spatial axis, from a single number or a tuple."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    nums = tuple(as_num(v) for v in items)
    return nums * rank if len(nums) == 1 else nums


def convolution_lowering(rank: int, transposed: bool = False) -> Callable[..., Node]:
    """The lowering of a convolution over `rank` axes. The node's numbers: strides, paddings, dilations, output paddings, groups."""

    def lower(
        x: object, weight: object, bias: object = None, stride: object = 1, padding: object = 0, *more: object, shape: object = None
    ) -> Node:
        node, w = as_node(x), as_node(weight)
        if len(node.shape) == rank + 1:
            return drop_axis(lower(unsqueeze(node, 0), w, bias, stride, padding, *more, shape=(Num.of(1), *require_shape(shape))), 0)
        extra = list(more)
        out_padding = extra.pop(0) if transposed and extra else 0
        groups = extra[0 if transposed else 1] if len(extra) > (0 if transposed else 1) else 1
        dilation = (extra[1] if len(extra) > 1 else 1) if transposed else (extra[0] if extra else 1)
        if isinstance(padding, str):
            padding = named_padding(padding, w.shape[2:], per_axis_nums(dilation, rank))
        nums = (
            *per_axis_nums(stride, rank),
            *per_axis_nums(padding, rank),
            *per_axis_nums(dilation, rank),
            *per_axis_nums(out_padding, rank),
            as_num(groups),
        )
        steps = list(zip(w.shape[2:], nums, nums[rank:], nums[2 * rank :], nums[3 * rank :]))
        sizes = [transposed_extent(n, *step) if transposed else count_windows(n, *step[:4]) for n, step in zip(node.shape[2:], steps)]
        main = Node("conv", (node, w), replace_guessed_extents(require_shape(shape), sizes), "transposed" if transposed else "", nums=nums)
        return main if bias is None else apply("add", main, as_channel_vector(as_node(bias), rank + 2))

    return lower


def named_padding(name: str, window: tuple[Num, ...], dilations: tuple[Num, ...]) -> tuple[Num, ...]:
    """The paddings that `valid` or `same` stand for."""
    spans = [calculate("mul", d, calculate("sub", k, Num.of(1))) for k, d in zip(window, dilations)]
    if name == "valid":
        return (Num.of(0),) * len(spans)
    if any(v % 2 for span in spans for v in span.values):
        raise UnsupportedPattern("a convolution padded on one side only")
    return tuple(calculate("floordiv", span, Num.of(2)) for span in spans)


def require_shape(shape: object) -> tuple[Num, ...]:
    """The traced shape of a result; raises UnsupportedPattern if there is none."""
    if not isinstance(shape, tuple):
        raise UnsupportedPattern("an operator whose result has an unknown shape")
    return shape


def count_windows(n: Num, window: Num, stride: Num, padding: Num, dilation: Num) -> Num:
    """The number of window positions along an extent."""
    window_span = calculate("mul", dilation, calculate("sub", window, Num.of(1)))
    spare = calculate("sub", calculate("mul", padding, Num.of(2)), window_span)
    if stride.is_one:
        return add_nums(n, spare)
    return add_nums(calculate("floordiv", add_nums(n, calculate("sub", spare, Num.of(1))), stride), Num.of(1))


def transposed_extent(n: Num, window: Num, stride: Num, padding: Num, dilation: Num, more: Num) -> Num:
    """The output extent of a transposed convolution."""
    window_span = calculate("mul", dilation, calculate("sub", window, Num.of(1)))
    spare = calculate("add", calculate("sub", window_span, calculate("mul", padding, Num.of(2))), more)
    return add_nums(calculate("mul", n, stride), calculate("sub", calculate("add", spare, Num.of(1)), stride))


def add_nums(n: Num, by: Num) -> Num:
    """The sum of two numbers, written as a difference if the second is a negative literal."""
    if by.is_literal and by.value <= 0:
        return calculate("sub", n, Num.of(int(-by.value))) if by.value else n
    return calculate("add", n, by)


def replace_guessed_extents(shape: tuple[Num, ...], sizes: list[Num]) -> tuple[Num, ...]:
    """A traced shape whose last extents are the exact expressions where they agree, instead of expressions guessed from a few sizes."""
    leading = len(shape) - len(sizes)
    return (*shape[:leading], *(exact_extent if exact_extent.is_same(nums) else nums for exact_extent, nums in zip(sizes, shape[leading:])))


def pooling_lowering(kind: str, rank: int) -> Callable[..., Node]:
    """The lowering of a pooling over `rank` axes. Numbers: window, strides, paddings, dilations; `dims` is (1,) if padding counts."""

    def lower(x: object, kernel: object, stride: object = (), padding: object = 0, *more: object, shape: object = None) -> Node:
        node = as_node(x)
        if len(node.shape) == rank + 1:
            return drop_axis(lower(unsqueeze(node, 0), kernel, stride, padding, *more, shape=(Num.of(1), *require_shape(shape))), 0)
        dilation = more[0] if kind == "max" and more else 1
        ceil = more[1] if kind == "max" and len(more) > 1 else more[0] if kind == "mean" and more else False
        counts_padding = bool(more[1]) if kind == "mean" and len(more) > 1 else True
        if kind == "mean" and len(more) > 2 and more[2] is not None:
            raise UnsupportedPattern("a pooling with divisor_override")
        nums = tuple(n for v in (kernel, stride if stride not in ((), None) else kernel, padding, dilation) for n in per_axis_nums(v, rank))
        sizes = [count_windows(n, *nums[i::rank]) for i, n in enumerate(node.shape[-rank:])]
        if ceil and not is_same_shape(tuple(sizes), require_shape(shape)[-rank:]):
            raise UnsupportedPattern("a pooling with windows that extend beyond the image")
        return Node("pool", (node,), replace_guessed_extents(require_shape(shape), sizes), kind, (int(counts_padding),), nums)

    return lower


TABLE: Mapping[str, Callable[..., object]] = {
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "linear": linear, "addmm": addmm, "dot": matmul,
    "vdot": matmul, "baddbmm": addmm, "addmv": addmm,
    "inner": lambda x, y: matmul(x, transpose(y, -2, -1) if len(as_node(y).shape) > 1 else y),
    "transpose": transpose, "t": transpose, "numpy_T": transpose, "mT": lambda x: transpose(x, -2, -1),
    "scaled_dot_product_attention": attention,
    **{f"conv{n}d": convolution_lowering(n) for n in (1, 2, 3)}, **{f"conv_transpose{n}d": convolution_lowering(n, True) for n in (1, 2,
    3)},
    **{f"max_pool{n}d": pooling_lowering("max", n) for n in (1, 2, 3)}, **{f"avg_pool{n}d": pooling_lowering("mean", n) for n in (1, 2, 3)},
}  # fmt: skip
