"""The reference in float64: what its outputs would be without rounding, and how long its sums are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from evokernel.core.errors import UserError
from evokernel.reference.module import CHANCE, Named, Reference, Sample, blame, own_chance
from evokernel.reference.reduction_length import tensors, terms

HALVES = (torch.float16, torch.bfloat16)
NARROW = (*HALVES, torch.float32)


class Oracle(NamedTuple):
    """The outputs of one sample, floats as float64."""

    outputs: tuple[Named, ...]
    length: float
    """Terms in the longest sum."""
    halves: bool
    """Whether the reference itself rounds to half precision somewhere."""


class Widened(TorchDispatchMode):  # type: ignore[misc]
    """Every operator in float64, also where the reference asks for less, as in `x.float()` or `torch.zeros(n)`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: torch would load its compiler, for seconds, only to keep it away from here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.length, self.halves = 1.0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator whose tensors are wide already, and widens those that come into being here."""
        kinds = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.dtype)]
        self.halves |= any(kind in HALVES for kind in kinds)
        args, kwargs = tree_map_only(torch.dtype, wide, (args, kwargs or {}))
        result = func(*args, **kwargs)
        self.length = max(self.length, terms(func, args, tensors((args, kwargs)), tensors(result)))
        return result if func._schema.is_mutable else tree_map_only(torch.Tensor, widened, result)


def oracle(reference: Reference, sample: Sample, usual: tuple[Named, ...]) -> Oracle | None:
    """What the sample gives in float64; None where the reference cannot be had in it, or then gives something else than `usual`."""
    mode = Widened()
    with CHANCE, own_chance(sample.seed):
        try:
            with blame(reference.name, "in float64"), torch.no_grad():
                module, args = widened_module(sample.module), widened_nest(sample.args)
                with mode:
                    result = module(*args)
            outputs = tuple(reference.outputs(result, []))
        except UserError:
            return None
    if [kind(named) for named in outputs] != [kind(named) for named in usual]:
        return None
    if any(named.tensor.is_floating_point() and named.tensor.dtype != torch.float64 for named in outputs):
        return None
    return Oracle(outputs, mode.length, mode.halves)


def kind(named: Named) -> tuple[str, tuple[int, ...], torch.dtype]:
    """What must not depend on precision."""
    tensor = named.tensor
    return named.name, tuple(tensor.shape), torch.float64 if tensor.is_floating_point() else tensor.dtype


def wide(dtype: torch.dtype) -> torch.dtype:
    """float64 for any narrower float."""
    return torch.float64 if dtype in NARROW else dtype


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in float64; what is no narrow float stays."""
    return tensor.double() if tensor.dtype in NARROW else tensor


def widened_nest(value: Any) -> Any:
    """A nest of arguments with fresh, wide tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.dtype in NARROW else value.detach().clone()
    if isinstance(value, Mapping):
        return {key: widened_nest(item) for key, item in value.items()}
    return tuple(widened_nest(item) for item in value) if isinstance(value, list | tuple) else value


def widened_module(module: torch.nn.Module) -> torch.nn.Module:
    """A wide copy, tensors it merely holds included."""
    twin = copy.deepcopy(module).double()
    for part in twin.modules():
        for key, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                setattr(part, key, widened(value))
    return twin


def moved(reference: Reference, sample: Sample, usual: tuple[Named, ...], seed: int, steps: float = 1.0) -> tuple[Named, ...] | None:
    """The outputs when every float that goes in is moved by so many of its own rounding errors; None where the reference then raises.

    Inputs coarser than the outputs stay: no rounding inside is as large as a step of theirs.
    """
    finest = min(
        (torch.finfo(tensor.dtype).eps for _, tensor in usual if tensor.is_floating_point()), default=torch.finfo(torch.float32).eps
    )
    floats = [tensor for _, tensor in sample.inputs + sample.params if tensor.is_floating_point()]
    held = [tensor for tensor in floats if torch.finfo(tensor.dtype).eps <= finest]
    kept = [tensor.data for tensor in held]
    chance = torch.Generator().manual_seed(seed)
    try:
        for tensor in held:
            factor = 1 + steps * torch.finfo(tensor.dtype).eps
            signs = torch.rand(tensor.shape, generator=chance) < 0.5
            tensor.data = torch.where(signs, tensor.data * factor, tensor.data / factor)  # an expanded tensor cannot be written into
        return reference.run(sample)
    except UserError:
        return None
    finally:
        for tensor, before in zip(held, kept):
            tensor.data = before
