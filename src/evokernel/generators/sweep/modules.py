"""PyTorch's modules in terms of its functions: what `self.layer(x)` means for a layer made in `__init__`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.sweep import ops
from evokernel.generators.sweep.graph import Node
from evokernel.generators.sweep.ops import FUNCTIONS, Params


def linear(params: Params, x: object, *made: object, **settings: object) -> Node:
    """nn.Linear."""
    return ops.linear(x, params("weight"), params("bias"))


def conv2d(
    params: Params, x: object, in_channels: object, out_channels: object, kernel_size: object, stride: object = 1, padding: object = 0,
    dilation: object = 1, groups: object = 1, bias: object = True,
) -> Node:  # fmt: skip
    """nn.Conv2d."""
    return ops.conv2d(x, params("weight"), params("bias"), stride, padding, dilation, groups)


def layer_norm(params: Params, x: object, normalized_shape: object, eps: object = 1e-5, **settings: object) -> Node:
    """nn.LayerNorm."""
    return ops.layer_norm(x, normalized_shape, params("weight"), params("bias"), eps)


def rms_norm(params: Params, x: object, normalized_shape: object, eps: object = None, **settings: object) -> Node:
    """nn.RMSNorm."""
    return ops.rms_norm(x, normalized_shape, params("weight"), eps)


def embedding(params: Params, x: object, *made: object, **settings: object) -> Node:
    """nn.Embedding."""
    return ops.embedding(x, params("weight"))


def plain(function: Callable[..., Node], **defaults: object) -> Callable[..., Node]:
    """A module without parameters whose settings are the function's further arguments."""

    def call(params: Params, *args: object, **settings: object) -> Node:
        # The call's tensors come first, as in the function; what the module was made with follows.
        return function(*args, **{**defaults, **settings})

    return call


PLAIN = {
    "GELU": "gelu", "SiLU": "silu", "Mish": "mish", "ReLU": "relu", "ReLU6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "Softplus": "softplus", "ELU": "elu", "SELU": "selu", "LeakyReLU": "leaky_relu", "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid",
    "Hardtanh": "hardtanh", "Softsign": "softsign", "LogSigmoid": "logsigmoid", "Tanhshrink": "tanhshrink", "Softmax": "softmax",
    "LogSoftmax": "log_softmax", "MaxPool2d": "max_pool2d", "AvgPool2d": "avg_pool2d",
}  # fmt: skip
LOSSES = {
    "MSELoss": "mse_loss", "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "KLDivLoss": "kl_div",
    "CrossEntropyLoss": "cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}  # fmt: skip

MODULES: Mapping[str, Callable[..., Node]] = {
    **{module: plain(FUNCTIONS[function]) for module, function in {**PLAIN, **LOSSES}.items()},
    "Linear": linear,
    "Conv2d": conv2d,
    "LayerNorm": layer_norm,
    "RMSNorm": rms_norm,
    "Embedding": embedding,
    "Identity": plain(FUNCTIONS["contiguous"]),
}
