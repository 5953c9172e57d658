"""How many terms go into one element of what an operator gives: the longest sum is where rounding errors grow."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.data_movement_ops import MOVES

ALONG_AN_AXIS = ("softmax", "norm", "cum", "attention")
"""Parts of the names of operators that add up along an axis and keep the shape."""
CHOOSERS = "all amax amin aminmax any argmax argmin argsort cummax cummin kthvalue max median min mode sort topk"
COMPARISONS = frozenset(CHOOSERS.split())
"""Operators that choose among values and add none; max pooling is another."""
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Matrix products, and which argument's last axis is summed over."""


def terms(func: Any, args: Any, given: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    """Of one call of an operator, as it is dispatched: its arguments, the tensors among them, and those it gave."""
    name = func._overloadpacket.__name__
    made = max((tensor.numel() for tensor in results), default=0)
    if func.is_view or name in MOVES or name in COMPARISONS or "max_pool" in name or not given or not made:
        return 1.0
    if name in PRODUCTS:
        return float(args[PRODUCTS[name]].shape[-1])
    if name == "convolution":
        transposed, groups = args[6], args[8]
        return float(args[1].numel() / (groups * args[1].shape[1] if transposed else args[1].shape[0]))
    if "group_norm" in name or "layer_norm" in name or "batch_norm" in name:
        return normalised(name, args)
    most = max(tensor.numel() for tensor in given)
    if most <= made and any(part in name for part in ALONG_AN_AXIS):
        return float(max((size for tensor in given for size in tensor.shape), default=1))
    return float(most / made)


def normalised(name: str, args: Any) -> float:
    """How many elements share a mean; stored statistics are none."""
    if "layer_norm" in name:
        return float(math.prod(args[1]))
    if "group_norm" in name:
        _, _, _, _, channels, places, groups, *_ = args
        return float(channels * places / groups)
    training = "no_training" not in name and args[5]
    return float(args[0].numel() / args[0].shape[1]) if training else 1.0


def tensors(nest: Any) -> list[torch.Tensor]:
    """Those in a nest of arguments or results."""
    return [leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor)]
