"""Counts the terms that an operator sums for one output element; rounding errors grow with the longest sum."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.data_movement_ops import DATA_MOVEMENT_OPS

ALONG_AN_AXIS = ("softmax", "norm", "cum", "attention")
"""Parts of the names of operators that sum along an axis and keep the shape."""
CHOOSERS = "all amax amin aminmax any argmax argmin argsort cummax cummin kthvalue max median min mode sort topk"
COMPARISONS = frozenset(CHOOSERS.split())
"""Operators that select values without adding; max pooling is handled separately."""
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Matrix products, with the index of the argument whose last axis is summed over."""


def call_reduction_length(func: Any, args: Any, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> float:
    """Return the number of terms per output element of one dispatched operator call, given its arguments, input and output tensors."""
    name = func._overloadpacket.__name__
    output_elements = max((tensor.numel() for tensor in outputs), default=0)
    if func.is_view or name in DATA_MOVEMENT_OPS or name in COMPARISONS or "max_pool" in name or not inputs or not output_elements:
        return 1.0
    if name in PRODUCTS:
        return float(args[PRODUCTS[name]].shape[-1])
    if name == "convolution":
        is_transposed, groups = args[6], args[8]
        return float(args[1].numel() / (groups * args[1].shape[1] if is_transposed else args[1].shape[0]))
    if name.endswith("_backward") and (length := backward_length(name, args)):
        return length
    if "group_norm" in name or "layer_norm" in name or "batch_norm" in name:
        return normalization_length(name, args)
    most = max(tensor.numel() for tensor in inputs)
    if most <= output_elements and any(part in name for part in ALONG_AN_AXIS):
        return float(max((size for tensor in inputs for size in tensor.shape), default=1))
    return float(most / output_elements)


def normalization_length(name: str, args: Any) -> float:
    """Return how many elements a normalisation averages; 1 if it uses stored statistics."""
    if "layer_norm" in name:
        return float(math.prod(args[1]))
    if "group_norm" in name:
        _, _, _, _, channels, places, groups, *_ = args
        return float(channels * places / groups)
    training = "no_training" not in name and args[5]
    return float(args[0].numel() / args[0].shape[1]) if training else 1.0


def backward_length(name: str, args: Any) -> float | None:
    """Return the longest sum of a fused backward operator, usually the gradient of a parameter; None for other operators."""
    grad, x = args[:2]
    if name == "convolution_backward":
        weight, is_transposed = args[2], args[7]
        positions = x if is_transposed else grad
        return float(max(positions.numel() / positions.shape[1], weight.numel() / weight.shape[1 - is_transposed]))
    if name == "native_layer_norm_backward":
        return float(max(math.prod(args[2]), x.numel() / math.prod(args[2])))
    if name == "native_group_norm_backward":
        rows, channels, places, groups = args[5:9]
        return float(max(channels * places / groups, rows * places))
    if "batch_norm_backward" in name:
        return float(x.numel() / x.shape[1])
    return None


def collect_tensors(nest: Any) -> list[torch.Tensor]:
    """Return the tensors in nested arguments or results."""
    return [leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor)]
