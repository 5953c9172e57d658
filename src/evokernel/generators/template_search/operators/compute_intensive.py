"""Products, convolutions, poolings, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    arithmetic,
    as_node,
    broadcast,
    equal_shapes,
    index,
    integer,
    number,
    permute,
    reshape,
    select,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.reductions import along_channels, softmax


def matmul(a: object, b: object) -> Node:
    """Product over the last two axes, batch axes equal, broadcast or missing; vectors are rows or columns."""
    left, right = as_node(a), as_node(b)
    if len(left.shape) == 1:
        return drop(matmul(unsqueeze(left, 0), right), -2)
    if len(right.shape) == 1:
        return drop(matmul(left, unsqueeze(right, 1)), -1)
    if not left.shape[-1].same(right.shape[-2]):
        raise NoSketch("a product whose inner extents differ")
    batch = broadcast(left.shape[:-2], right.shape[:-2])
    if len(right.shape) > 2 and not equal_shapes(left.shape[:-2], right.shape[:-2]):
        left, right = (stretched(x, (*batch, *x.shape[-2:])) for x in (left, right))
    return Node("matmul", (left, right), (*batch, left.shape[-2], right.shape[-1]))


def stretched(node: Node, shape: tuple[Num, ...]) -> Node:
    """Repeated along batch axes it lacks."""
    return node if equal_shapes(node.shape, shape) else Node("expand", (node,), shape, dtype=node.dtype)


def drop(node: Node, axis: int) -> Node:
    """Without an axis of size one."""
    at = axis % len(node.shape)
    return reshape(node, (*node.shape[:at], *node.shape[at + 1 :]))


def transpose(x: object, dim0: object = 0, dim1: object = 1) -> Node:
    """Two axes exchanged."""
    node = as_node(x)
    order = list(range(len(node.shape)))
    a, b = (integer(d) % len(order) for d in (dim0, dim1))
    order[a], order[b] = order[b], order[a]
    return permute(node, tuple(order))


def linear(x: object, weight: object, bias: object = None) -> Node:
    """x @ weight.T + bias."""
    product = matmul(x, transpose(weight, -2, -1))
    return product if bias is None else apply("add", product, bias)


def addmm(c: object, a: object, b: object, beta: object = 1, alpha: object = 1) -> Node:
    """beta * c + alpha * a @ b."""
    product, rest = matmul(a, b), as_node(c)
    scaled = product if number(alpha).value == 1 else apply("mul", alpha, product)
    return apply("add", scaled, rest if number(beta).value == 1 else apply("mul", beta, rest))


def attention(
    q: object, k: object, v: object, mask: object = None, dropout: object = 0.0, causal: object = False, scale: object = None,
    enable_gqa: object = False,
) -> Node:  # fmt: skip
    """softmax(q k' * scale) v, with what lies ahead left out where asked for."""
    query, key = as_node(q), as_node(k)
    width = query.shape[-1]
    factor = number(scale) if scale is not None else Num(tuple(n**-0.5 for n in width.values), "rsqrt", (width,), integer=False)
    scores = apply("mul", matmul(query, transpose(key, -2, -1)), factor)
    if causal:
        rank = len(scores.shape)
        scores = select("<=", index(scores.shape, rank - 1), index(scores.shape, rank - 2), scores, float("-inf"))
    if isinstance(mask, Node):
        scores = apply("where", mask, scores, float("-inf")) if mask.dtype == "bool" else apply("add", scores, mask)
    return matmul(softmax(scores), v)


def several(value: object, rank: int) -> tuple[Num, ...]:
    """One number per spatial axis, from one or as many."""
    listed = value if isinstance(value, (tuple, list)) else (value,)
    found = tuple(number(v) for v in listed)
    return found * rank if len(found) == 1 else found


def convolution(rank: int, transposed: bool = False) -> Callable[..., Node]:
    """A convolution over so many axes. Its numbers: strides, paddings, dilations, paddings of the output, groups."""

    def call(
        x: object, weight: object, bias: object = None, stride: object = 1, padding: object = 0, *more: object, shape: object = None
    ) -> Node:
        node, w = as_node(x), as_node(weight)
        if isinstance(padding, str) or len(node.shape) != rank + 2:
            raise NoSketch("a convolution with named padding or without a batch axis")
        extra = list(more)
        out_padding = extra.pop(0) if transposed and extra else 0
        groups = extra[0 if transposed else 1] if len(extra) > (0 if transposed else 1) else 1
        dilation = (extra[1] if len(extra) > 1 else 1) if transposed else (extra[0] if extra else 1)
        nums = (*several(stride, rank), *several(padding, rank), *several(dilation, rank), *several(out_padding, rank), number(groups))
        steps = list(zip(w.shape[2:], nums, nums[rank:], nums[2 * rank :], nums[3 * rank :]))
        sizes = [opened(n, *step) if transposed else windows(n, *step[:4]) for n, step in zip(node.shape[2:], steps)]
        heavy = Node("conv", (node, w), exact(traced(shape), sizes), "transposed" if transposed else "", nums=nums)
        return heavy if bias is None else apply("add", heavy, along_channels(as_node(bias), rank + 2))

    return call


def traced(shape: object) -> tuple[Num, ...]:
    """The shape the tracer found."""
    if not isinstance(shape, tuple):
        raise NoSketch("an operator whose result has no known shape")
    return shape


def windows(n: Num, window: Num, stride: Num, padding: Num, dilation: Num) -> Num:
    """How many windows fit into an extent."""
    covered = arithmetic("mul", dilation, arithmetic("sub", window, Num.of(1)))
    spare = arithmetic("sub", arithmetic("mul", padding, Num.of(2)), covered)
    if stride.is_one:
        return plus(n, spare)
    return plus(arithmetic("floordiv", plus(n, arithmetic("sub", spare, Num.of(1))), stride), Num.of(1))


def opened(n: Num, window: Num, stride: Num, padding: Num, dilation: Num, more: Num) -> Num:
    """The extent a transposed convolution makes of one."""
    covered = arithmetic("mul", dilation, arithmetic("sub", window, Num.of(1)))
    spare = arithmetic("add", arithmetic("sub", covered, arithmetic("mul", padding, Num.of(2))), more)
    return plus(arithmetic("mul", n, stride), arithmetic("sub", arithmetic("add", spare, Num.of(1)), stride))


def plus(n: Num, by: Num) -> Num:
    """A sum, written as a difference where that is plainer."""
    if by.is_literal and by.value <= 0:
        return arithmetic("sub", n, Num.of(int(-by.value))) if by.value else n
    return arithmetic("add", n, by)


def exact(shape: tuple[Num, ...], sizes: list[Num]) -> tuple[Num, ...]:
    """A traced shape with its last extents as they come about, not as they were guessed from a few sizes."""
    kept = len(shape) - len(sizes)
    return (*shape[:kept], *(known if known.same(found) else found for known, found in zip(sizes, shape[kept:])))


def pooling(kind: str, rank: int) -> Callable[..., Node]:
    """A pooling over windows of so many axes. Its numbers: window, strides, paddings, dilations; `dims` is (1,) where padding counts."""

    def call(x: object, kernel: object, stride: object = (), padding: object = 0, *more: object, shape: object = None) -> Node:
        node = as_node(x)
        if len(node.shape) == rank + 1:
            return drop(call(unsqueeze(node, 0), kernel, stride, padding, *more, shape=(Num.of(1), *traced(shape))), 0)
        dilation = more[0] if kind == "max" and more else 1
        ceil = more[1] if kind == "max" and len(more) > 1 else more[0] if kind == "mean" and more else False
        counted = bool(more[1]) if kind == "mean" and len(more) > 1 else True
        if ceil or (kind == "mean" and len(more) > 2 and more[2] is not None):
            raise NoSketch("a pooling with windows that hang over, or with a divisor of its own")
        nums = tuple(n for v in (kernel, stride if stride not in ((), None) else kernel, padding, dilation) for n in several(v, rank))
        sizes = [windows(n, *nums[i::rank]) for i, n in enumerate(node.shape[-rank:])]
        return Node("pool", (node,), exact(traced(shape), sizes), kind, (int(counted),), nums)

    return call


TABLE: Mapping[str, Callable[..., object]] = {
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "linear": linear, "addmm": addmm, "dot": matmul,
    "transpose": transpose, "t": transpose, "numpy_T": transpose, "mT": lambda x: transpose(x, -2, -1),
    "scaled_dot_product_attention": attention,
    **{f"conv{n}d": convolution(n) for n in (1, 2, 3)}, **{f"conv_transpose{n}d": convolution(n, True) for n in (1, 2, 3)},
    **{f"max_pool{n}d": pooling("max", n) for n in (1, 2, 3)}, **{f"avg_pool{n}d": pooling("mean", n) for n in (1, 2, 3)},
}  # fmt: skip
