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
    in_memory,
    make_index,
    make_select,
    reduce,
    reshape,
    squeeze,
    unsqueeze,
)
from evokernel.generators.template_search.operators.elementwise import log_one_plus_exp
from evokernel.generators.template_search.operators.indexing import as_indices
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
    """-log softmax at the target class; the plain case is an operator of its own. Targets may also be probabilities of all classes."""
    logits, classes = as_node(x), as_node(y)
    kind, axis = int(as_num(reduction).value), min(1, len(logits.shape) - 1)
    if len(classes.shape) == len(logits.shape) and "int" not in classes.dtype:
        if weight is not None or as_num(smoothing).value:
            raise UnsupportedPattern("a cross entropy of probabilities with weights or smoothing")
        loss = apply("neg", reduce("sum", apply("mul", log_softmax(logits, axis), classes), axis))
        return reduce_loss(loss, reduction)
    is_plain = len(logits.shape) == 2 and weight is None and not as_num(smoothing).value and as_num(ignore).value < 0
    if is_plain and kind in (MEAN, SUM):
        return Node("cross_entropy", (logits, as_indices(classes)), (), "mean" if kind == MEAN else "sum")
    return nll_loss(log_softmax(logits, axis), classes, weight, reduction, ignore, smoothing)


def nll_loss(x: object, y: object, weight: object = None, reduction: object = MEAN, ignore: object = -100, smoothing: object = 0.0) -> Node:
    """-x at the target class, with weights of classes, an ignored class and smoothing; a mean is divided by the sum of the weights."""
    log_p, classes = as_node(x), as_node(y)
    kind, factor, ignored = int(as_num(reduction).value), as_num(smoothing), as_num(ignore)
    axis = min(1, len(log_p.shape) - 1)
    target = unsqueeze(classes, axis)
    is_target = apply("eq", make_index(log_p.shape, axis), target)
    share = None
    if weight is not None:
        one_axis = tuple(n if i == axis else Num.of(1) for i, n in enumerate(log_p.shape))
        factors = reshape(in_memory(as_node(weight)), one_axis)
        log_p, share = apply("mul", log_p, factors), reduce("sum", apply("where", is_target, factors, 0.0), axis, True)
    loss = apply("neg", reduce("sum", apply("where", is_target, log_p, 0.0), axis, True))
    if factor.value:
        smooth = apply("mul", reduce("sum", log_p, axis, True), apply("div", factor, log_p.shape[axis]))
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
    "nll_loss_nd": nll_loss, "nll_loss": nll_loss, "binary_cross_entropy": binary_cross_entropy, "poisson_nll_loss": poisson_nll,
    "margin_ranking_loss": margin_ranking, "cosine_embedding_loss": cosine_embedding, "soft_margin_loss": soft_margin,
    "hinge_embedding_loss": hinge_embedding,
}  # fmt: skip
