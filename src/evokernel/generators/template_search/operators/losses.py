"""Lowerings of losses: an elementwise distance, then its mean or sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import (
    Node,
    Num,
    UnsupportedPattern,
    apply,
    as_node,
    as_num,
    make_index,
    make_select,
    reduce,
    reshape,
    squeeze,
    unsqueeze,
)
from evokernel.generators.template_search.operators.elementwise import log_one_plus_exp
from evokernel.generators.template_search.operators.reductions import log_softmax

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
    """-log softmax at the target class; the plain case is an operator of its own, other cases are written out."""
    logits, classes = as_node(x), as_node(y)
    kind, factor, ignored = int(as_num(reduction).value), as_num(smoothing), as_num(ignore)
    if "int" not in classes.dtype:
        raise UnsupportedPattern("a cross entropy with probabilities as targets")
    is_plain = len(logits.shape) == 2 and weight is None and not factor.value and ignored.value < 0 and kind in (MEAN, SUM)
    if is_plain:
        return Node("cross_entropy", (logits, classes), (), "mean" if kind == MEAN else "sum")
    axis = min(1, len(logits.shape) - 1)
    log_p, target = log_softmax(logits, axis), unsqueeze(classes, axis)
    is_target = apply("eq", make_index(logits.shape, axis), target)
    share = None
    if weight is not None:
        one_axis = tuple(n if i == axis else Num.of(1) for i, n in enumerate(logits.shape))
        factors = reshape(as_node(weight), one_axis)
        log_p, share = apply("mul", log_p, factors), reduce("sum", apply("where", is_target, factors, 0.0), axis, True)
    loss = apply("neg", reduce("sum", apply("where", is_target, log_p, 0.0), axis, True))
    if factor.value:
        smooth = apply("mul", reduce("sum", log_p, axis, True), apply("div", factor, logits.shape[axis]))
        loss = apply("sub", apply("mul", apply("sub", 1.0, factor), loss), smooth)
    if ignored.value >= 0:
        counts = apply("ne", target, ignored)
        loss = apply("where", counts, loss, 0.0)
        share = apply("where", counts, 1.0 if share is None else share, 0.0)
    if kind == MEAN and share is not None:
        return apply("div", reduce("sum", loss), reduce("sum", share))
    return reduce_loss(squeeze(loss, (axis,)), reduction)


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
