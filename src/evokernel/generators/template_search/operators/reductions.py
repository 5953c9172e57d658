"""Reductions, normalisations, softmax and running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    arithmetic,
    as_node,
    axes_of,
    const,
    integer,
    number,
    reduce,
    reshape,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.elementwise import rsqrt


def fold(kind: str) -> Callable[..., Node]:
    """A reduction as PyTorch calls it."""
    return lambda x, dim=None, keepdim=False, dtype=None: reduce(kind, x, dim, keepdim)


def extreme(kind: str) -> Callable[..., object]:
    """`max` and `min` along an axis give values and places; over everything a value."""

    def along(x: object, dim: object = None, keepdim: object = False) -> object:
        return reduce(kind, x) if dim is None else (reduce(kind, x, dim, keepdim), reduce(f"arg{kind}", x, dim, keepdim))

    return along


def place(kind: str) -> Callable[..., Node]:
    """Position of an extreme along an axis."""

    def along(x: object, dim: object = None, keepdim: object = False) -> Node:
        if dim is None:
            raise NoSketch(f"{kind} over all axes")
        return reduce(kind, x, dim, keepdim)

    return along


def count(node: Node, axes: tuple[int, ...]) -> Num:
    """How many elements a reduction goes over."""
    total = Num.of(1)
    for axis in axes:
        total = arithmetic("mul", total, node.shape[axis])
    return total


def var(x: object, dim: object = None, unbiased: object = True, keepdim: object = False, correction: object = None) -> Node:
    """Mean of squared distances, with or without Bessel's correction."""
    node = as_node(x)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = axes_of(dim, len(node.shape))
    less = integer(number(correction)) if correction is not None else int(bool(unbiased))
    away = apply("sub", node, reduce("mean", node, axes, True))
    if not less:
        return reduce("mean", apply("mul", away, away), axes, keepdim)
    total = reduce("sum", apply("mul", away, away), axes, keepdim)
    return apply("div", total, const(arithmetic("sub", count(node, axes), Num.of(less))))


def softmax(x: object, dim: object = -1, dtype: object = None) -> Node:
    """exp(x - max) / sum."""
    weight = apply("exp", apply("sub", x, reduce("max", x, dim, True)))
    return apply("div", weight, reduce("sum", weight, dim, True))


def log_softmax(x: object, dim: object = -1, dtype: object = None) -> Node:
    """x - max - log(sum(exp(x - max)))."""
    shifted = apply("sub", x, reduce("max", x, dim, True))
    return apply("sub", shifted, apply("log", reduce("sum", apply("exp", shifted), dim, True)))


def logsumexp(x: object, dim: object, keepdim: object = False) -> Node:
    """max + log(sum(exp(x - max)))."""
    node = as_node(x)
    high = reduce("max", node, dim, True)
    total = apply("add", high, apply("log", reduce("sum", apply("exp", apply("sub", node, high)), dim, True)))
    axes = axes_of(dim, len(node.shape))
    return total if keepdim else reshape(total, tuple(n for i, n in enumerate(total.shape) if i not in axes))


def affine(x: Node, weight: object, bias: object) -> Node:
    """x * weight + bias, where given."""
    scaled = x if weight is None else apply("mul", x, weight)
    return scaled if bias is None else apply("add", scaled, bias)


def centred(x: Node, axes: tuple[int, ...], eps: object) -> Node:
    """(x - mean) / sqrt(var + eps) over some axes."""
    away = apply("sub", x, reduce("mean", x, axes, True))
    return apply("mul", away, rsqrt(apply("add", reduce("mean", apply("mul", away, away), axes, True), eps)))


def layer_norm(x: object, normalized_shape: object, weight: object = None, bias: object = None, eps: object = 1e-5, *rest: object) -> Node:
    """Over the last axes."""
    node = as_node(x)
    n = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
    return affine(centred(node, tuple(range(len(node.shape) - n, len(node.shape))), eps), weight, bias)


def rms_norm(x: object, normalized_shape: object, weight: object = None, eps: object = None) -> Node:
    """x / sqrt(mean(x * x) + eps) * weight over the last axes."""
    node = as_node(x)
    n = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
    square = reduce("mean", apply("mul", node, node), tuple(range(len(node.shape) - n, len(node.shape))), True)
    return affine(apply("mul", node, rsqrt(apply("add", square, 1.1920929e-07 if eps is None else eps))), weight, None)


def along_channels(vector: object, rank: int) -> object:
    """A vector over the second axis of a tensor."""
    if not isinstance(vector, Node):
        return vector
    return reshape(vector, (*vector.shape, *(Num.of(1),) * (rank - 2)))


def batch_norm(
    x: object, weight: object, bias: object, mean: object, var: object, training: object, momentum: object, eps: object, *rest: object
) -> Node:
    """With statistics from before: a scale and a shift per channel; in training they are the batch's own."""
    node = as_node(x)
    rank = len(node.shape)
    w, b = (along_channels(v, rank) for v in (weight, bias))
    if training or mean is None:
        return affine(centred(node, (0, *range(2, rank)), eps), w, b)
    m, v = (along_channels(s, rank) for s in (mean, var))
    return affine(apply("mul", apply("sub", node, m), rsqrt(apply("add", v, eps))), w, b)


def group_norm(x: object, groups: object, weight: object = None, bias: object = None, eps: object = 1e-5, *rest: object) -> Node:
    """Over each group of channels and everything behind them."""
    node = as_node(x)
    rank, split = len(node.shape), number(groups)
    each = arithmetic("floordiv", node.shape[1], split)
    seen = reshape(node, (node.shape[0], split, each, *node.shape[2:]))
    normal = centred(seen, tuple(range(2, rank + 1)), eps)
    w, b = (reshape(v, (split, each, *(Num.of(1),) * (rank - 2))) if isinstance(v, Node) else v for v in (weight, bias))
    return reshape(affine(normal, w, b), node.shape)


def instance_norm(
    x: object, weight: object, bias: object, mean: object, var: object, own: object, momentum: object, eps: object, *rest: object
) -> Node:
    """Over everything behind the channels."""
    node = as_node(x)
    rank = len(node.shape)
    if not own:
        return batch_norm(x, weight, bias, mean, var, False, momentum, eps)
    return affine(centred(node, tuple(range(2, rank)), eps), along_channels(weight, rank), along_channels(bias, rank))


def vector_norm(x: object, order: object = 2, dim: object = None, keepdim: object = False, dtype: object = None) -> Node:
    """The first or second norm."""
    p = number(order).value
    if p == 1:
        return reduce("sum", apply("abs", x), dim, keepdim)
    if p == 2:
        return apply("sqrt", reduce("sum", apply("mul", x, x), dim, keepdim))
    raise NoSketch(f"the norm of order {p:g}")


def scan(kind: str) -> Callable[..., Node]:
    """A running sum or product."""

    def along(x: object, dim: object, dtype: object = None) -> Node:
        node = as_node(x)
        return Node("scan", (node,), node.shape, kind, axes_of(dim, len(node.shape)))

    return along


def cosine_similarity(x: object, y: object, dim: object = 1, eps: object = 1e-8) -> Node:
    """x . y / (max(|x|, eps) * max(|y|, eps))."""
    dot = reduce("sum", apply("mul", x, y), dim)
    left, right = (apply("max", apply("sqrt", reduce("sum", apply("mul", v, v), dim)), eps) for v in (x, y))
    return apply("div", dot, apply("mul", left, right))


def global_average(x: object, size: object) -> Node:
    """Adaptive pooling down to one element."""
    node = as_node(x)
    wanted = size if isinstance(size, tuple) else (size,)
    if any(not (isinstance(n, Num) and n.is_one) for n in wanted):
        raise NoSketch("adaptive pooling to more than one element")
    return reduce("mean", node, tuple(range(len(node.shape) - len(wanted), len(node.shape))), True)


TABLE: Mapping[str, Callable[..., object]] = {
    "sum": fold("sum"), "mean": fold("mean"), "amax": fold("max"), "amin": fold("min"), "prod": fold("prod"),
    "max": extreme("max"), "min": extreme("min"), "argmax": place("argmax"), "argmin": place("argmin"),
    "var": var, "std": lambda *a, **k: apply("sqrt", var(*a, **k)), "softmax": softmax, "_softmax": softmax, "log_softmax": log_softmax,
    "logsumexp": logsumexp, "layer_norm": layer_norm, "rms_norm": rms_norm, "batch_norm": batch_norm, "group_norm": group_norm,
    "instance_norm": instance_norm, "linalg_vector_norm": vector_norm, "norm": vector_norm, "cumsum": scan("sum"), "cumprod": scan("prod"),
    "cosine_similarity": cosine_similarity, "adaptive_avg_pool1d": global_average, "adaptive_avg_pool2d": global_average,
    "adaptive_avg_pool3d": global_average, "unsqueeze": lambda x, dim: unsqueeze(as_node(x), integer(dim)),
}  # fmt: skip
