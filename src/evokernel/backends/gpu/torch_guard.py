"""Restricts PyTorch in a launch function to views and scratch; operators that compute are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.core.errors import CandidateError

EMPTY = ("aten::empty.memory_format", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided")
ZEROS = ("aten::zeros", "aten::zeros_like", "aten::new_zeros")
CLEAR_OPS = ("aten::zero_",)
COPY_OPS = ("aten::copy_",)
FILL_OPS = ("aten::fill_.Scalar", "aten::full", "aten::full_like", "aten::new_full")
VIEWS = frozenset(
    [
        "aten::view",
        "aten::_unsafe_view",
        "aten::view.dtype",
        "aten::t",
        "aten::transpose.int",
        "aten::permute",
        "aten::slice.Tensor",
        "aten::select.int",
        "aten::expand",
        "aten::unsqueeze",
        "aten::squeeze",
        "aten::squeeze.dim",
        "aten::squeeze.dims",
        "aten::as_strided",
        "aten::detach",
        "aten::alias",
        "aten::split.Tensor",
        "aten::split_with_sizes",
        "aten::unbind.int",
        "aten::diagonal",
        "aten::unfold",
        "aten::_reshape_alias",
        "aten::flatten.using_ints",
        "aten::unflatten.int",
        "aten::view_as_real",
        "aten::narrow",
        "aten::movedim.intlist",
        "aten::chunk",
        "aten::lift_fresh",
    ]
)
REFUSED = (
    "{name} computes with PyTorch; a launch function may only take views and scratch (torch.empty, torch.zeros), write the rest in Triton"
)
Scratch = Callable[[torch.Tensor, bool], None]


class TorchGuard(TorchDispatchMode):  # type: ignore[misc]
    """Intercepts every PyTorch operator while it is active. `on_scratch` is called for scratch, with whether it must be zero; `on_copy`, if
    copies are allowed, for a copy of a complete tensor to another."""

    def __init__(
        self,
        on_scratch: Scratch,
        on_clear: Callable[[torch.Tensor], None],
        device: str,
        on_copy: Callable[[torch.Tensor, torch.Tensor], None] | None = None,
    ) -> None:
        super().__init__()
        self.on_scratch, self.on_clear, self.device, self.on_copy = on_scratch, on_clear, device, on_copy

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, because otherwise PyTorch would load its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.name(), dict(kwargs or {})
        if name in VIEWS:
            return func(*args, **kwargs)
        if name in EMPTY or name in ZEROS:
            kwargs |= {"device": self.device} if "device" in {argument.name for argument in func._schema.arguments} else {}
            kwargs.pop("pin_memory", None)
            result = func(*args, **kwargs)
            self.on_scratch(result, name in ZEROS)
            return result
        if name in CLEAR_OPS:
            self.on_clear(args[0])
            return args[0]
        if name in COPY_OPS and self.on_copy:
            refuse_conversion(args[0], args[1])
            self.on_copy(args[0], args[1])
            return args[0]
        raise CandidateError("forbidden", REFUSED.format(name=name.partition("::")[2].partition(".")[0]))


def refuse_conversion(target: torch.Tensor, source: torch.Tensor) -> None:
    """Refuses copies that compute: those that convert, repeat or reorder elements."""
    if target.dtype != source.dtype or target.shape != source.shape or not (target.is_contiguous() and source.is_contiguous()):
        raise CandidateError("forbidden", REFUSED.format(name="copy_ between tensors of other types, sizes or strides"))
