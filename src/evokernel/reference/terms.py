"""How many terms go into one element of what an operator gives: the longest sum is where rounding errors grow."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.movers import MOVES

ALONG_AN_AXIS = ("softmax", "norm", "cum", "logsumexp", "attention", "var", "std")
"""Parts of the names of operators that add up along an axis and keep the shape."""
PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
"""Matrix products, and which argument's last axis is summed over."""


def terms(func: Any, args: Any, given: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    """Of one call of an operator, as it is dispatched: its arguments, the tensors among them, and those it gave."""
    name = func._overloadpacket.__name__
    made = max((tensor.numel() for tensor in results), default=0)
    if func.is_view or name in MOVES or not given or not made:
        return 1.0
    if name in PRODUCTS:
        return float(args[PRODUCTS[name]].shape[-1])
    if name == "convolution":
        return float(args[1].numel() / min(args[1].shape[:2]))
    if any(part in name for part in ALONG_AN_AXIS):
        return float(max((size for tensor in given for size in tensor.shape), default=1))
    return float(max(tensor.numel() for tensor in given) / made)


def tensors(nest: Any) -> list[torch.Tensor]:
    """Those in a nest of arguments or results."""
    return [leaf for leaf in tree_leaves(nest) if isinstance(leaf, torch.Tensor)]
