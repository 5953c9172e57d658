"""Lowerings of reductions, normalisations, softmax and running sums."""

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
    calculate,
    make_const,
    make_index,
    normalize_axes,
    reduce,
    repeat_literal,
    reshape,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.elementwise import power, rsqrt


def reduction_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of a reduction, with PyTorch's parameters."""
    return lambda x, dim=None, keepdim=False, dtype=None: reduce(kind, x, dim, keepdim)


def extreme_lowering(kind: str) -> Callable[..., object]:
    """The lowering of `max` or `min`: values and positions along an axis, or one value over all axes."""

    def lower(x: object, dim: object = None, keepdim: object = False) -> object:
        return reduce(kind, x) if dim is None else (reduce(kind, x, dim, keepdim), reduce(f"arg{kind}", x, dim, keepdim))

    return lower


def arg_reduction_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of `argmax` or `argmin` along an axis."""

    def lower(x: object, dim: object = None, keepdim: object = False) -> Node:
        if dim is None:
            node = as_node(x)
            flat = reshape(node, (count_reduced(node, tuple(range(len(node.shape)))),))
            return reshape(reduce(kind, flat, 0), (Num.of(1),) * len(node.shape) if keepdim else ())
        return reduce(kind, x, dim, keepdim)

    return lower


def count_reduced(node: Node, axes: tuple[int, ...]) -> Num:
    """The number of elements that a reduction combines."""
    total = Num.of(1)
    for axis in axes:
        total = calculate("mul", total, node.shape[axis])
    return total


def var(x: object, dim: object = None, unbiased: object = True, keepdim: object = False, correction: object = None) -> Node:
    """Mean of squared distances, with or without Bessel's correction."""
    node = as_node(x)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = normalize_axes(dim, len(node.shape))
    less = as_integer(as_num(correction)) if correction is not None else int(bool(unbiased))
    difference = apply("sub", node, reduce("mean", node, axes, True))
    if not less:
        return reduce("mean", apply("mul", difference, difference), axes, keepdim)
    total = reduce("sum", apply("mul", difference, difference), axes, keepdim)
    return apply("div", total, make_const(calculate("sub", count_reduced(node, axes), Num.of(less))))


def softmax(x: object, dim: object = -1, dtype: object = None) -> Node:
    """exp(x - max) / sum."""
    weight = apply("exp", apply("sub", x, reduce("max", x, dim, True)))
    return apply("div", weight, reduce("sum", weight, dim, True))


def log_softmax(x: object, dim: object = -1, dtype: object = None) -> Node:
    """x - max - log(sum(exp(x - max)))."""
    logits = apply("sub", x, reduce("max", x, dim, True))
    return apply("sub", logits, apply("log", reduce("sum", apply("exp", logits), dim, True)))


def logsumexp(x: object, dim: object, keepdim: object = False) -> Node:
    """max + log(sum(exp(x - max)))."""
    node = as_node(x)
    high = reduce("max", node, dim, True)
    total = apply("add", high, apply("log", reduce("sum", apply("exp", apply("sub", node, high)), dim, True)))
    axes = normalize_axes(dim, len(node.shape))
    return total if keepdim else reshape(total, tuple(n for i, n in enumerate(total.shape) if i not in axes))


def scale_and_shift(x: Node, weight: object, bias: object) -> Node:
    """x * weight + bias; either may be None."""
    scaled_x = x if weight is None else apply("mul", x, weight)
    return scaled_x if bias is None else apply("add", scaled_x, bias)


def normalize(x: Node, axes: tuple[int, ...], eps: object) -> Node:
    """(x - mean) / sqrt(var + eps) over some axes."""
    difference = apply("sub", x, reduce("mean", x, axes, True))
    return apply("mul", difference, rsqrt(apply("add", reduce("mean", apply("mul", difference, difference), axes, True), eps)))


def layer_norm(x: object, normalized_shape: object, weight: object = None, bias: object = None, eps: object = 1e-5, *rest: object) -> Node:
    """Layer normalisation over the last axes."""
    node = as_node(x)
    n = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
    return scale_and_shift(normalize(node, tuple(range(len(node.shape) - n, len(node.shape))), eps), weight, bias)


def rms_norm(x: object, normalized_shape: object, weight: object = None, eps: object = None) -> Node:
    """x / sqrt(mean(x * x) + eps) * weight over the last axes."""
    node = as_node(x)
    n = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
    square = reduce("mean", apply("mul", node, node), tuple(range(len(node.shape) - n, len(node.shape))), True)
    return scale_and_shift(apply("mul", node, rsqrt(apply("add", square, 1.1920929e-07 if eps is None else eps))), weight, None)


def as_channel_vector(vector: object, rank: int) -> object:
    """A vector reshaped so that it broadcasts along the channels, the second axis."""
    if not isinstance(vector, Node):
        return vector
    return reshape(vector, (*vector.shape, *(Num.of(1),) * (rank - 2)))


def batch_norm(
    x: object, weight: object, bias: object, mean: object, var: object, training: object, momentum: object, eps: object, *rest: object
) -> Node:
    """Batch normalisation with stored statistics, or with the batch's statistics in training."""
    node = as_node(x)
    rank = len(node.shape)
    w, b = (as_channel_vector(v, rank) for v in (weight, bias))
    if training or mean is None:
        return scale_and_shift(normalize(node, (0, *range(2, rank)), eps), w, b)
    m, v = (as_channel_vector(s, rank) for s in (mean, var))
    return scale_and_shift(apply("mul", apply("sub", node, m), rsqrt(apply("add", v, eps))), w, b)


def group_norm(x: object, groups: object, weight: object = None, bias: object = None, eps: object = 1e-5, *rest: object) -> Node:
    """Group normalisation: over each group of channels and all following axes."""
    node = as_node(x)
    rank, split = len(node.shape), as_num(groups)
    each = calculate("floordiv", node.shape[1], split)
    grouped = reshape(node, (node.shape[0], split, each, *node.shape[2:]))
    normal = normalize(grouped, tuple(range(2, rank + 1)), eps)
    w, b = (reshape(v, (split, each, *(Num.of(1),) * (rank - 2))) if isinstance(v, Node) else v for v in (weight, bias))
    return reshape(scale_and_shift(normal, w, b), node.shape)


def instance_norm(
    x: object, weight: object, bias: object, mean: object, var: object, own: object, momentum: object, eps: object, *rest: object
) -> Node:
    """Instance normalisation: over all axes after the channels."""
    node = as_node(x)
    rank = len(node.shape)
    if not own:
        return batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    return scale_and_shift(normalize(node, tuple(range(2, rank)), eps), as_channel_vector(weight, rank), as_channel_vector(bias, rank))


def vector_norm(x: object, order: object = 2, dim: object = None, keepdim: object = False, dtype: object = None) -> Node:
    """The norm of any order."""
    p = 2.0 if order is None else as_num(order).value
    if p == 1:
        return reduce("sum", apply("abs", x), dim, keepdim)
    if p == 2:
        return apply("sqrt", reduce("sum", apply("mul", x, x), dim, keepdim))
    if p == float("inf"):
        return reduce("max", apply("abs", x), dim, keepdim)
    if p == float("-inf"):
        return reduce("min", apply("abs", x), dim, keepdim)
    if p == 0:
        return reduce("sum", apply("where", apply("ne", x, 0.0), 1.0, 0.0), dim, keepdim)
    return power(reduce("sum", power(apply("abs", x), p), dim, keepdim), 1 / p)


def general_norm(x: object, order: object = None, dim: object = None, keepdim: object = False, dtype: object = None) -> Node:
    """`linalg.norm` of vectors."""
    if isinstance(order, str) or (order is not None and (not isinstance(dim, Num) and len(as_node(x).shape) != 1)):
        raise UnsupportedPattern("the norm of a matrix")
    return vector_norm(x, order, dim, keepdim)


def condition_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of `any` (`max`) or `all` (`min`)."""

    def lower(x: object, dim: object = None, keepdim: object = False) -> Node:
        condition = apply("where", apply("ne", x, 0.0), 1.0, 0.0)
        return apply("ne", reduce(kind, condition, dim, keepdim), 0.0)

    return lower


def count_nonzero(x: object, dim: object = None) -> Node:
    """How many elements are not zero."""
    return reduce("sum", apply("where", apply("ne", x, 0.0), 1.0, 0.0), dim)


def var_mean(
    x: object, dim: object = None, unbiased: object = True, keepdim: object = False, correction: object = None
) -> tuple[Node, Node]:
    """Variance and mean."""
    return var(x, dim, unbiased, keepdim, correction), reduce("mean", x, None if isinstance(dim, bool) else dim, keepdim)


def std_mean(*settings: object, **named: object) -> tuple[Node, Node]:
    """Standard deviation and mean."""
    variance, mean = var_mean(*settings, **named)
    return apply("sqrt", variance), mean


def logcumsumexp(x: object, dim: object) -> Node:
    """log of the running sum of exponentials."""
    high = reduce("max", x, dim, True)
    exponentials = apply("exp", apply("sub", x, high))
    running = Node("scan", (exponentials,), exponentials.shape, "sum", normalize_axes(dim, len(exponentials.shape)))
    return apply("add", apply("log", running), high)


def trace(x: object) -> Node:
    """The sum of the diagonal."""
    node = as_node(x)
    return reduce("sum", apply("where", apply("eq", make_index(node.shape, 0), make_index(node.shape, 1)), node, 0.0))


def pairwise_distance(x: object, y: object, p: object = 2.0, eps: object = 1e-6, keepdim: object = False) -> Node:
    """The norm of x - y + eps over the last axis."""
    return vector_norm(apply("add", apply("sub", x, y), eps), p, -1, keepdim)


def cdist(x: object, y: object, p: object = 2.0, mode: object = None) -> Node:
    """The distances of all pairs of rows."""
    return vector_norm(apply("sub", unsqueeze(as_node(x), -2), unsqueeze(as_node(y), -3)), p, -1)


def scan_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of a running sum or product."""

    def lower(x: object, dim: object, dtype: object = None) -> Node:
        node = as_node(x)
        return Node("scan", (node,), node.shape, kind, normalize_axes(dim, len(node.shape)))

    return lower


def cosine_similarity(x: object, y: object, dim: object = 1, eps: object = 1e-8) -> Node:
    """x . y / (max(|x|, eps) * max(|y|, eps))."""
    dot = reduce("sum", apply("mul", x, y), dim)
    lhs, rhs = (apply("max", apply("sqrt", reduce("sum", apply("mul", v, v), dim)), eps) for v in (x, y))
    return apply("div", dot, apply("mul", lhs, rhs))


def adaptive_lowering(kind: str) -> Callable[..., Node]:
    """The lowering of adaptive pooling to one element, or to a number of elements that divides the image."""

    def lower(x: object, size: object, shape: object = None) -> Node:
        node = as_node(x)
        outputs = [None if n is None else as_num(n) for n in (size if isinstance(size, tuple) else (size,))]
        axes = tuple(range(len(node.shape) - len(outputs), len(node.shape)))
        if all(n is not None and n.is_one for n in outputs):
            return reduce(kind, node, axes, True)
        parts: list[Num] = []
        for axis, n in zip(axes, outputs):
            old, new = node.shape[axis], n or node.shape[axis]
            count = max(len(old.values), len(new.values))
            if any(a % b for a, b in zip(repeat_literal(old.values, count), repeat_literal(new.values, count))):
                raise UnsupportedPattern("adaptive pooling to a number of elements that does not divide the image")
            parts += [new, calculate("floordiv", old, new)]
        split = reshape(node, (*node.shape[: axes[0]], *parts))
        return reduce(kind, split, tuple(axes[0] + 2 * i + 1 for i in range(len(axes))))

    return lower


TABLE: Mapping[str, Callable[..., object]] = {
    "sum": reduction_lowering("sum"), "mean": reduction_lowering("mean"), "amax": reduction_lowering("max"),
    "amin": reduction_lowering("min"), "prod": reduction_lowering("prod"),
    "max": extreme_lowering("max"), "min": extreme_lowering("min"), "argmax": arg_reduction_lowering("argmax"),
    "argmin": arg_reduction_lowering("argmin"),
    "var": var, "std": lambda *a, **k: apply("sqrt", var(*a, **k)), "softmax": softmax, "_softmax": softmax, "log_softmax": log_softmax,
    "logsumexp": logsumexp, "layer_norm": layer_norm, "rms_norm": rms_norm, "batch_norm": batch_norm, "group_norm": group_norm,
    "instance_norm": instance_norm, "linalg_vector_norm": vector_norm, "norm": vector_norm, "cumsum": scan_lowering("sum"),
    "cumprod": scan_lowering("prod"),
    "cosine_similarity": cosine_similarity, **{f"adaptive_avg_pool{n}d": adaptive_lowering("mean") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": lambda x, size: (adaptive_lowering("max")(x, size),) for n in (1, 2, 3)},
    "linalg_norm": general_norm, "any": condition_lowering("max"), "all": condition_lowering("min"), "count_nonzero": count_nonzero,
    "var_mean": var_mean, "std_mean": std_mean, "logcumsumexp": logcumsumexp, "trace": trace, "pairwise_distance": pairwise_distance,
    "cdist": cdist, "aminmax": lambda x, dim=None, keepdim=False: (reduce("min", x, dim, keepdim), reduce("max", x, dim, keepdim)),
    "unsqueeze": lambda x, dim: unsqueeze(as_node(x), as_integer(dim)),
}  # fmt: skip
