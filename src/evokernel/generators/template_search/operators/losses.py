"""Lowerings of losses: an elementwise distance, then its mean or sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Node, UnsupportedPattern, apply, as_node, as_num, make_select, reduce
from evokernel.generators.template_search.operators.elementwise import log_one_plus_exp

MEAN, SUM = 1, 2
"""PyTorch's numbers for reductions."""


def reduce_loss(distance: Node, reduction: object) -> Node:
    """The mean or sum of the distances, or the distances themselves."""
    kind = int(as_num(reduction).value) if not isinstance(reduction, str) else {"mean": MEAN, "sum": SUM}.get(reduction, 0)
    return {MEAN: lambda: reduce("mean", distance), SUM: lambda: reduce("sum", distance)}.get(kind, lambda: distance)()


def mse_loss(x: object, y: object, reduction: object = MEAN) -> Node:
    """The mean or sum of (x - y)^2."""
    difference = apply("sub", x, y)
    return reduce_loss(apply("mul", difference, difference), reduction)


def l1_loss(x: object, y: object, reduction: object = MEAN) -> Node:
    """The mean or sum of |x - y|."""
    return reduce_loss(apply("abs", apply("sub", x, y)), reduction)


def smooth_l1_loss(x: object, y: object, reduction: object = MEAN, beta: object = 1.0) -> Node:
    """Quadratic near zero, linear beyond beta."""
    difference = apply("abs", apply("sub", x, y))
    quadratic = apply("mul", apply("div", 0.5, beta), apply("mul", difference, difference))
    return reduce_loss(make_select("<", difference, beta, quadratic, apply("sub", difference, apply("mul", 0.5, beta))), reduction)


def huber_loss(x: object, y: object, reduction: object = MEAN, delta: object = 1.0) -> Node:
    """The smooth L1 loss times delta."""
    return apply("mul", delta, smooth_l1_loss(x, y, reduction, delta))


def bce_with_logits(x: object, y: object, weight: object = None, pos_weight: object = None, reduction: object = MEAN) -> Node:
    """Binary cross entropy of logits."""
    if weight is not None or pos_weight is not None:
        raise UnsupportedPattern("a weighted binary cross entropy")
    return reduce_loss(apply("sub", log_one_plus_exp(x), apply("mul", x, y)), reduction)


def kl_divergence(x: object, y: object, reduction: object = MEAN, log_target: object = False) -> Node:
    """target * (log(target) - input), and 0 where the target is zero."""
    if log_target:
        return reduce_loss(apply("mul", apply("exp", y), apply("sub", y, x)), reduction)
    return reduce_loss(make_select(">", y, 0.0, apply("mul", y, apply("sub", apply("log", y), x)), 0.0), reduction)


def cross_entropy(
    x: object, y: object, weight: object = None, reduction: object = MEAN, ignore: object = -100, smoothing: object = 0.0
) -> Node:
    """-log softmax at the target class."""
    logits, classes = as_node(x), as_node(y)
    if as_num(ignore).value >= 0:
        raise UnsupportedPattern("a cross entropy with an ignored class")
    if len(logits.shape) != 2 or len(classes.shape) != 1 or weight is not None or as_num(smoothing).value:
        raise UnsupportedPattern("a cross entropy with weights, with smoothing or over more than two axes")
    if as_num(reduction).value not in (MEAN, SUM):
        raise UnsupportedPattern("a cross entropy without reduction")
    return Node("cross_entropy", (logits, classes), (), "mean" if as_num(reduction).value == MEAN else "sum")


def triplet_loss(
    anchor: object, positive: object, negative: object, margin: object = 1.0, p: object = 2.0, eps: object = 1e-6, swap: object = False,
    reduction: object = MEAN,
) -> Node:  # fmt: skip
    """max(|a - p| - |a - n| + margin, 0)."""
    if as_num(p).value != 2 or swap:
        raise UnsupportedPattern("a triplet loss of another norm")

    def distance(other: object) -> Node:
        difference = apply("add", apply("sub", anchor, other), eps)
        return apply("sqrt", reduce("sum", apply("mul", difference, difference), -1))

    return reduce_loss(apply("max", apply("add", apply("sub", distance(positive), distance(negative)), margin), 0.0), reduction)


TABLE: Mapping[str, Callable[..., object]] = {
    "mse_loss": mse_loss, "l1_loss": l1_loss, "smooth_l1_loss": smooth_l1_loss, "huber_loss": huber_loss, "kl_div": kl_divergence,
    "binary_cross_entropy_with_logits": bce_with_logits, "cross_entropy_loss": cross_entropy, "triplet_margin_loss": triplet_loss,
}  # fmt: skip
