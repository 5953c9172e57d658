"""Decides whether two torch calls mean the same: `torch.softmax(x, dim=-1)`, `F.softmax(x, -1)` and `x.softmax(-1)` do.

Calls are compared by the ATen operators that PyTorch reduces them to. These are recorded on tensors without data, so that nothing is
computed.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map

from evokernel.torch_models.calls import Function, TorchCall, documented_name, format_tensor_type

OPERATOR_METHODS = {
    "__matmul__": "matmul",
    "__add__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__truediv__": "div",
    "mm": "matmul",
    "spmm": "matmul",
}
"""Names of one function; what a call means is decided by its ATen operators."""
UNTRACEABLE = (RuntimeError, NotImplementedError, TypeError, ValueError)


class CallMeaning(NamedTuple):
    """What a call computes."""

    operators: tuple[str, ...]
    """The ATen operators with their arguments; tensors are named by the argument or the operator that they come from."""
    outputs: tuple[str, ...]
    """Origin, dtype and shape of each tensor that the call returns."""


class OperatorRecorder(TorchDispatchMode):  # type: ignore[misc]
    """Records the ATen operators of a call."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self.tensors = list(tensors)  # kept alive, so that no two have the same id
        self.names = {id(tensor): f"argument {index}" for index, tensor in enumerate(tensors)}
        self.operators: list[str] = []

    def name_of(self, value: Any) -> Any:
        """Return the origin of a tensor; other values as they are."""
        return self.names.get(id(value), "?") if isinstance(value, torch.Tensor) else value

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = tree_map(self.name_of, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        for index, tensor in enumerate(leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)):
            self.names[id(tensor)] = f"output {index} of {len(self.operators)}"
            self.tensors.append(tensor)
        self.operators.append(f"{func}{arguments}")
        return result


def describe_meaning(call: TorchCall) -> tuple[CallMeaning, TreeSpec] | None:
    """Return what a call computes and the structure of its result; None if PyTorch cannot say so without data."""
    tensors = [torch.empty(tensor.shape, dtype=tensor.dtype, device="meta") for tensor in call.tensors]
    recorder = OperatorRecorder(tensors)
    try:
        with torch.no_grad(), recorder:
            result = call.call_with(tensors)
    except UNTRACEABLE:
        return None
    leaves, form = tree_flatten(result)
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    outputs = tuple(f"{recorder.name_of(leaf)}: {format_tensor_type(leaf)}" for leaf in leaves)
    shapes = tuple(format_tensor_type(tensor) for tensor in call.tensors)
    return CallMeaning((*shapes, *recorder.operators), outputs), form


@cache
def short_name(func: Function) -> str | None:
    """Return the name that all forms of a function share: `softmax`, `matmul`; None for a function that is not an operator."""
    name = documented_name(func)
    return None if name is None else shorten(name)


def shorten(name: str) -> str:
    """Return the last part of a documented name, without the mark of in-place functions."""
    last = name.rpartition(".")[2]
    last = last if last.endswith("__") else last.removesuffix("_")
    return OPERATOR_METHODS.get(last, last)
