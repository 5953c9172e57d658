"""PyTorch's functions and modules in terms of the expression tree. Parameter names are PyTorch's: calls bind to them directly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from evokernel.generators.sweep.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    as_node,
    axes_of,
    integer,
    number,
    permute,
    reduce,
    select,
    unsqueeze,
)

Params = Callable[[str], Node | None]
"""Looks up a module's own parameter or buffer; None when it has none of that name."""


def sigmoid(input: object) -> Node:
    """1 / (1 + exp(-x))."""
    return apply("div", 1.0, apply("add", 1.0, apply("exp", apply("neg", input))))


def softplus(input: object) -> Node:
    """max(x, 0) + log(1 + exp(-|x|)): cannot overflow."""
    return apply("add", apply("max", input, 0.0), apply("log", apply("add", 1.0, apply("exp", apply("neg", apply("abs", input))))))


def gelu(input: object, approximate: object = "none") -> Node:
    """Both forms of GELU."""
    half = apply("mul", 0.5, input)
    if approximate == "tanh":
        cubic = apply("mul", apply("mul", 0.044715, input), apply("mul", input, input))
        return apply("mul", half, apply("add", 1.0, apply("tanh", apply("mul", math.sqrt(2 / math.pi), apply("add", input, cubic)))))
    return apply("mul", half, apply("add", 1.0, apply("erf", apply("mul", math.sqrt(0.5), input))))


def clamp(input: object, min: object = None, max: object = None) -> Node:
    """Clips to a range."""
    low = input if min is None else apply("max", input, min)
    return as_node(low) if max is None else apply("min", low, max)


def leaky_relu(input: object, negative_slope: object = 0.01) -> Node:
    """max(x, 0) + slope * min(x, 0)."""
    return apply("add", apply("max", input, 0.0), apply("mul", negative_slope, apply("min", input, 0.0)))


def elu(input: object, alpha: object = 1.0) -> Node:
    """max(x, 0) + alpha * (exp(min(x, 0)) - 1)."""
    return apply("add", apply("max", input, 0.0), apply("mul", alpha, apply("sub", apply("exp", apply("min", input, 0.0)), 1.0)))


def selu(input: object) -> Node:
    """The self-normalising ELU."""
    return apply("mul", 1.0507009873554805, elu(input, 1.6732632423543772))


def hardsigmoid(input: object) -> Node:
    """clip(x / 6 + 1 / 2, 0, 1)."""
    return clamp(apply("add", apply("mul", 1 / 6, input), 0.5), 0.0, 1.0)


def power(input: object, exponent: object) -> Node:
    """Powers that unfold into multiplications, roots and reciprocals."""
    p = number(exponent).value
    unfolded = {
        0.5: lambda: apply("sqrt", input),
        -0.5: lambda: apply("div", 1.0, apply("sqrt", input)),
        -1.0: lambda: apply("div", 1.0, input),
        2.0: lambda: apply("mul", input, input),
        3.0: lambda: apply("mul", apply("mul", input, input), input),
        4.0: lambda: apply("mul", apply("mul", input, input), apply("mul", input, input)),
    }
    if p not in unfolded:
        raise NoSketch(f"the power {p:g}")
    return unfolded[p]()


def mean(input: object, dim: object = None, keepdim: object = False) -> Node:
    """Mean over axes."""
    return reduce("mean", input, dim, keepdim)


def var(input: object, dim: object = None, unbiased: object = True, keepdim: object = False, correction: object = None) -> Node:
    """Mean of squared distances; the unbiased one is refused, since its factor depends on the size."""
    if (correction is None and unbiased) or (correction is not None and integer(correction) != 0):
        raise NoSketch("the unbiased variance")
    away = apply("sub", input, mean(input, dim, True))
    return mean(apply("mul", away, away), dim, keepdim)


def softmax(input: object, dim: object = -1, dtype: object = None) -> Node:
    """exp(x - max) / sum."""
    weight = apply("exp", apply("sub", input, reduce("max", input, dim, True)))
    return apply("div", weight, reduce("sum", weight, dim, True))


def log_softmax(input: object, dim: object = -1, dtype: object = None) -> Node:
    """x - max - log(sum(exp(x - max)))."""
    shifted = apply("sub", input, reduce("max", input, dim, True))
    return apply("sub", shifted, apply("log", reduce("sum", apply("exp", shifted), dim, True)))


def layer_norm(input: object, normalized_shape: object, weight: object = None, bias: object = None, eps: object = 1e-5) -> Node:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes."""
    dims = tuple(range(-count(normalized_shape), 0))
    away = apply("sub", input, mean(input, dims, True))
    scale = apply("div", 1.0, apply("sqrt", apply("add", mean(apply("mul", away, away), dims, True), eps)))
    return affine(apply("mul", away, scale), weight, bias)


def rms_norm(input: object, normalized_shape: object, weight: object = None, eps: object = None) -> Node:
    """x / sqrt(mean(x * x) + eps) * weight over the last axes."""
    dims = tuple(range(-count(normalized_shape), 0))
    square = mean(apply("mul", input, input), dims, True)
    return affine(apply("mul", input, rsqrt(apply("add", square, 1.1920929e-07 if eps is None else eps))), weight, None)


def normalize(input: object, p: object = 2.0, dim: object = 1, eps: object = 1e-12) -> Node:
    """x / max(norm(x), eps)."""
    if number(p).value != 2:
        raise NoSketch("a norm other than the second")
    return apply("div", input, apply("max", apply("sqrt", reduce("sum", apply("mul", input, input), dim, True)), eps))


def rsqrt(input: object) -> Node:
    """1 / sqrt(x)."""
    return apply("div", 1.0, apply("sqrt", input))


def affine(x: Node, weight: object, bias: object) -> Node:
    """x * weight + bias, where given."""
    scaled = x if weight is None else apply("mul", x, weight)
    return scaled if bias is None else apply("add", scaled, bias)


def count(shape: object) -> int:
    """How many axes a normalised shape names."""
    return len(shape) if isinstance(shape, (tuple, list)) else 1


def matmul(input: object, other: object) -> Node:
    """Product over the last two axes, batch axes equal or broadcast."""
    a, b = as_node(input), as_node(other)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise NoSketch("a product with a vector")
    return Node("matmul", (a, b), (*a.shape[:-1], b.shape[-1]))


def linear(input: object, weight: object, bias: object = None) -> Node:
    """x @ weight.T + bias."""
    product = matmul(input, transpose(weight, -2, -1))
    return product if bias is None else apply("add", product, bias)


def transpose(input: object, dim0: object, dim1: object) -> Node:
    """Two axes exchanged."""
    node = as_node(input)
    order = list(range(len(node.shape)))
    a, b = (integer(d) % len(order) for d in (dim0, dim1))
    order[a], order[b] = order[b], order[a]
    return permute(node, tuple(order))


def attention(query: object, key: object, value: object, is_causal: object = False, scale: object = None) -> Node:
    """softmax(q k' * scale) v."""
    q = as_node(query)
    if is_causal:
        raise NoSketch("a causal mask")
    width = Num(q.shape[-1] ** -0.5, "rsqrt", (Num(q.shape[-1], "extent", name=q.name, axis=len(q.shape) - 1),), integer=False)
    return matmul(softmax(apply("mul", matmul(q, transpose(key, -2, -1)), width if scale is None else scale)), value)


def pair(value: object) -> tuple[Num, Num]:
    """Height and width from one number or two."""
    if isinstance(value, (tuple, list)):
        return number(value[0]), number(value[-1])
    return number(value), number(value)


def spread(n: int, kernel: Num, stride: Num, padding: Num, dilation: Num) -> int:
    """Output extent of a window operator."""
    return int((n + 2 * padding.value - dilation.value * (kernel.value - 1) - 1) // stride.value + 1)


def conv2d(
    input: object, weight: object, bias: object = None, stride: object = 1, padding: object = 0, dilation: object = 1, groups: object = 1
) -> Node:
    """Two-dimensional convolution, NCHW."""
    x, w = as_node(input), as_node(weight)
    if isinstance(padding, str) or len(x.shape) != 4 or w.op != "leaf":
        raise NoSketch("a convolution with named padding or other than four axes")
    windows = (*pair(stride), *pair(padding), *pair(dilation))
    kernel = tuple(Num.of(n) for n in w.shape[2:])
    out = tuple(spread(x.shape[2 + i], kernel[i], *(windows[j + i] for j in (0, 2, 4))) for i in (0, 1))
    heavy = Node("conv2d", (x, w), (x.shape[0], w.shape[0], *out), nums=(*windows, number(groups)))
    return heavy if bias is None else apply("add", heavy, channels(as_node(bias)))


def channels(bias: Node) -> Node:
    """A vector over the channel axis of NCHW."""
    return unsqueeze(unsqueeze(bias, 1), 2)


def pool(kind: str, input: object, kernel_size: object, stride: object, padding: object, dilation: object) -> Node:
    """A pooling over windows of the last two axes."""
    x = as_node(input)
    if len(x.shape) != 4:
        raise NoSketch("a pooling with other than four axes")
    windows = (*pair(kernel_size), *pair(kernel_size if stride is None else stride), *pair(padding), *pair(dilation))
    out = tuple(spread(x.shape[2 + i], *(windows[j + i] for j in (0, 2, 4, 6))) for i in (0, 1))
    return Node("pool", (x,), (*x.shape[:2], *out), kind, nums=windows)


def max_pool2d(input: object, kernel_size: object, stride: object = None, padding: object = 0, dilation: object = 1) -> Node:
    """Largest of each window; padding never wins."""
    return pool("max", input, kernel_size, stride, padding, dilation)


def avg_pool2d(input: object, kernel_size: object, stride: object = None, padding: object = 0) -> Node:
    """Mean of each window, padding counted as zeros."""
    return pool("mean", input, kernel_size, stride, padding, 1)


def cumsum(input: object, dim: object, dtype: object = None) -> Node:
    """Running sum."""
    x = as_node(input)
    return Node("scan", (x,), x.shape, "sum", axes_of(dim, len(x.shape)))


def embedding(input: object, weight: object) -> Node:
    """Rows of a table."""
    index, table = as_node(input), as_node(weight)
    return Node("gather", (table, index), (*index.shape, *table.shape[1:]))


def index_select(input: object, dim: object, index: object) -> Node:
    """Rows of a tensor, by index along the first axis."""
    if integer(dim) != 0:
        raise NoSketch("an index along another axis than the first")
    return embedding(index, input)


def arg(kind: str) -> Callable[..., Node]:
    """Position of the largest or smallest element along an axis."""

    def along(input: object, dim: object = None, keepdim: object = False) -> Node:
        if dim is None:
            raise NoSketch(f"{kind} over all axes")
        return reduce(kind, input, dim, keepdim)

    return along


def loss(distance: Callable[..., Node]) -> Callable[..., Node]:
    """Mean or sum of an elementwise distance."""

    def total(input: object, target: object, reduction: object = "mean", **settings: object) -> Node:
        apart = distance(input, target, **settings)
        return apart if reduction == "none" else reduce(str(reduction), apart)

    return total


def squared(input: object, target: object) -> Node:
    """(x - y)^2."""
    away = apply("sub", input, target)
    return apply("mul", away, away)


def absolute(input: object, target: object) -> Node:
    """|x - y|."""
    return apply("abs", apply("sub", input, target))


def smooth(input: object, target: object, beta: object = 1.0) -> Node:
    """Quadratic near zero, linear beyond beta."""
    away = absolute(input, target)
    near = apply("mul", apply("div", 0.5, beta), apply("mul", away, away))
    return select("<", away, beta, near, apply("sub", away, apply("mul", 0.5, beta)))


def huber(input: object, target: object, delta: object = 1.0) -> Node:
    """The smooth distance, scaled by delta."""
    return apply("mul", delta, smooth(input, target, delta))


def with_logits(input: object, target: object) -> Node:
    """Binary cross entropy of logits."""
    return apply("sub", softplus(input), apply("mul", input, target))


def kl(input: object, target: object) -> Node:
    """target * (log(target) - input)."""
    return apply("mul", target, apply("sub", apply("log", target), input))


def cross_entropy(input: object, target: object, reduction: object = "mean") -> Node:
    """-log softmax at the target class."""
    x, y = as_node(input), as_node(target)
    if len(x.shape) != 2 or len(y.shape) != 1 or reduction not in ("mean", "sum"):
        raise NoSketch("a cross entropy over more than two axes or without reduction")
    return Node("cross_entropy", (x, y), (), str(reduction))


FUNCTIONS: Mapping[str, Callable[..., Node]] = {
    **{name: (lambda *args, op=name: apply(op, *args)) for name in ("exp", "log", "tanh", "erf", "sqrt", "abs", "neg")},
    **{name: (lambda *args, op=op: apply(op, *args)) for name, op in {"maximum": "max", "minimum": "min", "div": "div"}.items()},
    **{name: (lambda *args, op=op: apply(op, *args)) for name, op in {"add": "add", "sub": "sub", "mul": "mul", "multiply": "mul"}.items()},
    "sigmoid": sigmoid, "softplus": softplus, "gelu": gelu, "clamp": clamp, "clip": clamp, "leaky_relu": leaky_relu,
    "elu": elu, "selu": selu, "hardsigmoid": hardsigmoid, "pow": power, "rsqrt": rsqrt,
    "relu": lambda input: apply("max", input, 0.0),
    "relu6": lambda input: clamp(input, 0.0, 6.0),
    "hardtanh": lambda input, min_val=-1.0, max_val=1.0: clamp(input, min_val, max_val),
    "silu": lambda input: apply("mul", input, sigmoid(input)),
    "mish": lambda input: apply("mul", input, apply("tanh", softplus(input))),
    "hardswish": lambda input: apply("mul", input, hardsigmoid(input)),
    "softsign": lambda input: apply("div", input, apply("add", 1.0, apply("abs", input))),
    "logsigmoid": lambda input: apply("neg", softplus(apply("neg", input))),
    "tanhshrink": lambda input: apply("sub", input, apply("tanh", input)),
    "square": lambda input: apply("mul", input, input),
    "reciprocal": lambda input: apply("div", 1.0, input),
    "addcmul": lambda input, a, b, value=1.0: apply("add", input, apply("mul", value, apply("mul", a, b))),
    "mean": mean, "var": var, "softmax": softmax, "log_softmax": log_softmax, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "normalize": normalize, "argmax": arg("argmax"), "argmin": arg("argmin"),
    **{name: (lambda input, dim=None, keepdim=False, kind=kind: reduce(kind, input, dim, keepdim))
       for name, kind in {"sum": "sum", "amax": "max", "amin": "min"}.items()},
    "matmul": matmul, "mm": matmul, "bmm": matmul, "linear": linear, "transpose": transpose,
    "t": lambda input: transpose(input, 0, 1),
    "addmm": lambda input, mat1, mat2: apply("add", matmul(mat1, mat2), input),
    "scaled_dot_product_attention": attention, "conv2d": conv2d, "max_pool2d": max_pool2d, "avg_pool2d": avg_pool2d, "cumsum": cumsum,
    "embedding": embedding, "index_select": index_select, "cross_entropy": cross_entropy,
    "mse_loss": loss(squared), "l1_loss": loss(absolute), "smooth_l1_loss": loss(smooth), "huber_loss": loss(huber),
    "binary_cross_entropy_with_logits": loss(with_logits), "kl_div": loss(kl),
    "contiguous": lambda input: as_node(input), "float": lambda input: as_node(input),
    "unsqueeze": lambda input, dim: unsqueeze(as_node(input), integer(dim)),
}  # fmt: skip
