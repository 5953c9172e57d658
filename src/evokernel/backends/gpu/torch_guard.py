"""What a launch function may do with PyTorch: look at tensors, take views of them and take scratch. Nothing that computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.core.errors import CandidateError

EMPTY = ("aten::empty.memory_format", "aten::empty_like", "aten::new_empty", "aten::empty_strided", "aten::new_empty_strided")
ZEROS = ("aten::zeros", "aten::zeros_like", "aten::new_zeros")
CLEARED = ("aten::zero_",)
FILLED = ("aten::fill_.Scalar", "aten::full", "aten::full_like", "aten::new_full")
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
    "{name} computes with PyTorch: the launch function may take views and scratch (torch.empty, torch.zeros); write the rest in Triton"
)
Scratch = Callable[[torch.Tensor, bool], None]


class Guard(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, every operator of PyTorch comes by here. `taken` is told of scratch, and whether it is to hold zeros."""

    def __init__(self, taken: Scratch, cleared: Callable[[torch.Tensor], None], device: str) -> None:
        super().__init__()
        self.taken, self.cleared, self.device = taken, cleared, device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: PyTorch would load its compiler for that, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.name(), dict(kwargs or {})
        if name in VIEWS:
            return func(*args, **kwargs)
        if name in EMPTY or name in ZEROS:
            kwargs |= {"device": self.device} if "device" in {argument.name for argument in func._schema.arguments} else {}
            kwargs.pop("pin_memory", None)
            made = func(*args, **kwargs)
            self.taken(made, name in ZEROS)
            return made
        if name in CLEARED:
            self.cleared(args[0])
            return args[0]
        raise CandidateError("forbidden", REFUSED.format(name=name.partition("::")[2].partition(".")[0]))
