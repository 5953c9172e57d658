"""Losses: an elementwise distance, then its mean or sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Node, NoSketch, apply, as_node, number, reduce, select
from evokernel.generators.template_search.operators.elementwise import log_one_plus_exp

MEAN, SUM = 1, 2
"""How PyTorch numbers reductions."""


def reduced(apart: Node, reduction: object) -> Node:
    """All distances together, or as they are."""
    kind = int(number(reduction).value) if not isinstance(reduction, str) else {"mean": MEAN, "sum": SUM}.get(reduction, 0)
    return {MEAN: lambda: reduce("mean", apart), SUM: lambda: reduce("sum", apart)}.get(kind, lambda: apart)()


def squared(x: object, y: object, reduction: object = MEAN) -> Node:
    """(x - y)^2."""
    away = apply("sub", x, y)
    return reduced(apply("mul", away, away), reduction)


def absolute(x: object, y: object, reduction: object = MEAN) -> Node:
    """|x - y|."""
    return reduced(apply("abs", apply("sub", x, y)), reduction)


def smooth(x: object, y: object, reduction: object = MEAN, beta: object = 1.0) -> Node:
    """Quadratic near zero, linear beyond beta."""
    away = apply("abs", apply("sub", x, y))
    near = apply("mul", apply("div", 0.5, beta), apply("mul", away, away))
    return reduced(select("<", away, beta, near, apply("sub", away, apply("mul", 0.5, beta))), reduction)


def huber(x: object, y: object, reduction: object = MEAN, delta: object = 1.0) -> Node:
    """The smooth distance, scaled by delta."""
    return apply("mul", delta, smooth(x, y, reduction, delta))


def with_logits(x: object, y: object, weight: object = None, pos_weight: object = None, reduction: object = MEAN) -> Node:
    """Binary cross entropy of logits."""
    if weight is not None or pos_weight is not None:
        raise NoSketch("a weighted binary cross entropy")
    return reduced(apply("sub", log_one_plus_exp(x), apply("mul", x, y)), reduction)


def kl(x: object, y: object, reduction: object = MEAN, log_target: object = False) -> Node:
    """target * (log(target) - input); nothing where the target is zero."""
    if log_target:
        return reduced(apply("mul", apply("exp", y), apply("sub", y, x)), reduction)
    return reduced(select(">", y, 0.0, apply("mul", y, apply("sub", apply("log", y), x)), 0.0), reduction)


def cross_entropy(
    x: object, y: object, weight: object = None, reduction: object = MEAN, ignore: object = -100, smoothing: object = 0.0
) -> Node:
    """-log softmax at the target class."""
    logits, classes = as_node(x), as_node(y)
    if number(ignore).value >= 0:
        raise NoSketch("a cross entropy in which a class does not count")
    if len(logits.shape) != 2 or len(classes.shape) != 1 or weight is not None or number(smoothing).value:
        raise NoSketch("a cross entropy with weights, with smoothing or over more than two axes")
    if number(reduction).value not in (MEAN, SUM):
        raise NoSketch("a cross entropy without reduction")
    return Node("cross_entropy", (logits, classes), (), "mean" if number(reduction).value == MEAN else "sum")


def triplet(
    anchor: object, positive: object, negative: object, margin: object = 1.0, p: object = 2.0, eps: object = 1e-6, swap: object = False,
    reduction: object = MEAN,
) -> Node:  # fmt: skip
    """max(|a - p| - |a - n| + margin, 0)."""
    if number(p).value != 2 or swap:
        raise NoSketch("a triplet loss of another norm")

    def distance(other: object) -> Node:
        away = apply("add", apply("sub", anchor, other), eps)
        return apply("sqrt", reduce("sum", apply("mul", away, away), -1))

    return reduced(apply("max", apply("add", apply("sub", distance(positive), distance(negative)), margin), 0.0), reduction)


TABLE: Mapping[str, Callable[..., object]] = {
    "mse_loss": squared, "l1_loss": absolute, "smooth_l1_loss": smooth, "huber_loss": huber, "kl_div": kl,
    "binary_cross_entropy_with_logits": with_logits, "cross_entropy_loss": cross_entropy, "triplet_margin_loss": triplet,
}  # fmt: skip
