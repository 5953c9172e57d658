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
    make_const,
    make_select,
    reduce,
    reshape,
)  # fmt: skip
from evokernel.generators.template_search.operators.elementwise import log_one_plus_exp
from evokernel.generators.template_search.operators.indexing import as_indices, count_elements, gather, index_select
from evokernel.generators.template_search.operators.reductions import cosine_similarity, log_softmax

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
    """Binary cross entropy of logits, with weights of elements and of positive ones."""
    if pos_weight is None:
        loss = apply("sub", log_one_plus_exp(x), apply("mul", x, y))
    else:
        factor = apply("add", 1.0, apply("mul", apply("sub", pos_weight, 1.0), y))
        loss = apply("add", apply("mul", apply("sub", 1.0, y), x), apply("mul", factor, log_one_plus_exp(apply("neg", x))))
    return reduce_loss(loss if weight is None else apply("mul", weight, loss), reduction)


def binary_cross_entropy(x: object, y: object, weight: object = None, reduction: object = MEAN) -> Node:
    """Binary cross entropy of probabilities; logarithms are at least -100."""
    yes, no = (apply("max", apply("log", p), -100.0) for p in (x, apply("sub", 1.0, x)))
    loss = apply("neg", apply("add", apply("mul", y, yes), apply("mul", apply("sub", 1.0, y), no)))
    return reduce_loss(loss if weight is None else apply("mul", weight, loss), reduction)


def poisson_nll(x: object, y: object, log_input: object = True, full: object = False, eps: object = 1e-8, reduction: object = MEAN) -> Node:
    """exp(x) - y x, or x - y log(x + eps) if x is no logarithm."""
    if full:
        raise UnsupportedPattern("a Poisson loss with the Stirling term")
    loss = (
        apply("sub", apply("exp", x), apply("mul", y, x))
        if log_input
        else apply("sub", x, apply("mul", y, apply("log", apply("add", x, eps))))
    )
    return reduce_loss(loss, reduction)


def margin_ranking(x: object, y: object, target: object, margin: object = 0.0, reduction: object = MEAN) -> Node:
    """max(0, -target * (x - y) + margin)."""
    return reduce_loss(apply("max", apply("sub", margin, apply("mul", target, apply("sub", x, y))), 0.0), reduction)


def soft_margin(x: object, y: object, reduction: object = MEAN) -> Node:
    """log(1 + exp(-y x))."""
    return reduce_loss(log_one_plus_exp(apply("neg", apply("mul", x, y))), reduction)


def hinge_embedding(x: object, y: object, margin: object = 1.0, reduction: object = MEAN) -> Node:
    """x where the target is 1, max(0, margin - x) elsewhere."""
    return reduce_loss(make_select(">", y, 0.0, x, apply("max", apply("sub", margin, x), 0.0)), reduction)


def cosine_embedding(x: object, y: object, target: object, margin: object = 0.0, reduction: object = MEAN) -> Node:
    """1 - cosine for pairs that belong together (target 1), max(0, cosine - margin) for others."""
    similarity = cosine_similarity(x, y, -1)
    apart = apply("max", apply("sub", similarity, margin), 0.0)
    return reduce_loss(make_select(">", target, 0.0, apply("sub", 1.0, similarity), apart), reduction)


def kl_divergence(x: object, y: object, reduction: object = MEAN, log_target: object = False) -> Node:
    """target * (log(target) - input), and 0 where the target is zero."""
    if log_target:
        return reduce_loss(apply("mul", apply("exp", y), apply("sub", y, x)), reduction)
    return reduce_loss(make_select(">", y, 0.0, apply("mul", y, apply("sub", apply("log", y), x)), 0.0), reduction)


def cross_entropy(
    x: object, y: object, weight: object = None, reduction: object = MEAN, ignore: object = -100, smoothing: object = 0.0
) -> Node:
    """-log softmax at the target class; targets may also be probabilities of all classes."""
    logits, classes = as_node(x), as_node(y)
    kind, smooth = as_num(reduction).value, as_num(smoothing).value
    is_plain = weight is None and not smooth and as_num(ignore).value < 0 and kind in (MEAN, SUM)
    if is_plain and len(logits.shape) == 2 and "int" in classes.dtype:
        return Node("cross_entropy", (logits, as_indices(classes)), (), "mean" if kind == MEAN else "sum")
    axis = min(1, len(logits.shape) - 1)
    log_p = log_softmax(logits, axis)
    if "int" in classes.dtype or classes.op == "index":
        return nll_loss(log_p, classes, weight, reduction, ignore, smooth)
    if weight is not None or smooth:
        raise UnsupportedPattern("a cross entropy of probabilities with weights or smoothing")
    loss = apply("neg", reduce("sum", apply("mul", log_p, classes), axis))
    rows = make_const(count_elements(loss.shape))
    return loss if kind not in (MEAN, SUM) else reduce("sum", loss) if kind == SUM else apply("div", reduce("sum", loss), rows)


def nll_loss(x: object, y: object, weight: object = None, reduction: object = MEAN, ignore: object = -100, smoothing: float = 0.0) -> Node:
    """-x at the target class, with weights of classes, an ignored class and smoothing; a mean is divided by the sum of the weights."""
    log_p, classes = as_node(x), as_indices(y)
    axis, kind, ignored = min(1, len(log_p.shape) - 1), as_num(reduction).value, as_num(ignore).value
    factor: Node | None = None
    if ignored >= 0:
        factor = apply("where", apply("ne", classes, float(ignored)), 1.0, 0.0)
    picked = pick_class(log_p, classes, axis)
    loss = apply("neg", picked)
    if weight is not None:
        class_weight = reshape(index_select(weight, 0, reshape(classes, (count_elements(classes.shape),))), classes.shape)
        factor = class_weight if factor is None else apply("mul", factor, class_weight)
    if smoothing:
        if weight is not None:
            raise UnsupportedPattern("a cross entropy with weights and smoothing")
        even = apply("neg", reduce("mean", log_p, axis))
        loss = apply("add", apply("mul", 1.0 - smoothing, loss), apply("mul", smoothing, even))
    if factor is None:
        return reduce_loss(loss, reduction)
    weighted = apply("mul", loss, factor)
    if kind == MEAN:
        return apply("div", reduce("sum", weighted), reduce("sum", factor))
    return reduce_loss(weighted, reduction)


def pick_class(x: Node, classes: Node, axis: int) -> Node:
    """The element of each target class along an axis, without that axis."""
    places = reshape(classes, (*classes.shape[:axis], Num.of(1), *classes.shape[axis:]))
    return reshape(gather(x, axis, places), classes.shape)


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
    "nll_loss_nd": nll_loss, "nll_loss": nll_loss, "binary_cross_entropy": binary_cross_entropy, "poisson_nll_loss": poisson_nll,
    "margin_ranking_loss": margin_ranking, "cosine_embedding_loss": cosine_embedding, "soft_margin_loss": soft_margin,
    "hinge_embedding_loss": hinge_embedding,
}  # fmt: skip
