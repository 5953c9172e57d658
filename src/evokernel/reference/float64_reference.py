"""Runs the reference in float64, to estimate its outputs without rounding errors and the length of its sums."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from evokernel.core.errors import UserError, is_device_out_of_memory
from evokernel.reference.module import RANDOM_STATE_LOCK, NamedTensor, Reference, Sample, SeededRandom, TaskFileErrors
from evokernel.reference.reduction_length import call_reduction_length, collect_tensors

HALVES = (torch.float16, torch.bfloat16)
WIDE_DTYPES = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}
NARROW = tuple(WIDE_DTYPES)


class Float64Result(NamedTuple):
    """Outputs of one sample, computed in float64."""

    outputs: tuple[NamedTensor, ...]
    reduction_length: float
    """Number of terms in the longest sum."""
    rounds_to_half: bool
    """Whether the reference itself rounds to half precision in an intermediate step."""


class Float64Mode(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that runs every operator in float64, even if the reference requests less, as in `x.float()` or `torch.zeros(n)`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise torch would load its compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.reduction_length, self.rounds_to_half = 1.0, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on float64 tensors and convert new tensors to float64."""
        kinds = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.dtype)]
        self.rounds_to_half |= any(kind in HALVES for kind in kinds)
        args, kwargs = tree_map_only(torch.dtype, widen_dtype, (args, kwargs or {}))
        result = func(*args, **kwargs)
        self.reduction_length = max(
            self.reduction_length, call_reduction_length(func, args, collect_tensors((args, kwargs)), collect_tensors(result))
        )
        return result if func._schema.is_mutable else tree_map_only(torch.Tensor, widen_tensor, result)


def run_in_float64(reference: Reference, sample: Sample, usual_outputs: tuple[NamedTensor, ...]) -> Float64Result | None:
    """Run a sample in float64; None if the reference fails in float64 or returns other names, shapes or kinds than `usual_outputs`."""
    mode = Float64Mode()
    with RANDOM_STATE_LOCK, SeededRandom(sample.seed):
        try:
            with TaskFileErrors(reference.name, "in float64"), torch.no_grad():
                module, args = widen_module(sample.module), widen_arguments(sample.args)
                with mode:
                    result = module(*args)
            outputs = tuple(reference.name_outputs(result, []))
        except UserError as error:
            if is_device_out_of_memory(error):  # the caller can compute in parts
                raise
            return None
    if [output_kind(output) for output in outputs] != [output_kind(output) for output in usual_outputs]:
        return None
    if any(output.tensor.dtype in NARROW for output in outputs):
        return None
    return Float64Result(outputs, mode.reduction_length, mode.rounds_to_half)


def output_kind(output: NamedTensor) -> tuple[str, tuple[int, ...], torch.dtype]:
    """Return name, shape and dtype of an output, with every narrow dtype as its wide one."""
    tensor = output.tensor
    return output.name, tuple(tensor.shape), widen_dtype(tensor.dtype)


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether the elements are real or complex floating-point numbers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def widen_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for any narrower float dtype, and complex128 for complex64."""
    return WIDE_DTYPES.get(dtype, dtype)


def widen_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Convert narrower numbers to float64 or complex128; other tensors stay unchanged."""
    return tensor.to(WIDE_DTYPES[tensor.dtype]) if tensor.dtype in NARROW else tensor


def widen_arguments(value: Any) -> Any:
    """Copy nested arguments with float64 tensors."""
    if isinstance(value, torch.Tensor):
        return widen_tensor(value.detach()) if value.dtype in NARROW else value.detach().clone()
    if isinstance(value, Mapping):
        return {key: widen_arguments(item) for key, item in value.items()}
    return tuple(widen_arguments(item) for item in value) if isinstance(value, list | tuple) else value


def widen_module(module: torch.nn.Module) -> torch.nn.Module:
    """Copy a module with float64 tensors, including tensors in plain attributes."""
    wide_module = copy.deepcopy(module).double()
    for tensor in (*wide_module.parameters(), *wide_module.buffers()):
        tensor.data = widen_tensor(tensor.data)
    for part in wide_module.modules():
        for key, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                setattr(part, key, widen_tensor(value))
    return wide_module


def run_with_perturbed_inputs(
    reference: Reference, sample: Sample, usual_outputs: tuple[NamedTensor, ...], seed: int, epsilons: float = 1.0
) -> tuple[NamedTensor, ...] | None:
    """Run the reference with every float input changed by `epsilons` machine epsilons in either direction; None if it raises."""
    try:
        with perturb_inputs(sample, usual_outputs, seed, epsilons):
            return reference.run(sample)
    except UserError:
        return None


@contextmanager
def perturb_inputs(sample: Sample, usual_outputs: tuple[NamedTensor, ...], seed: int, epsilons: float) -> Iterator[None]:
    """Change every float input by `epsilons` machine epsilons in either direction for a while.

    Inputs with a coarser dtype than the outputs stay unchanged: no internal rounding is as large as one of their steps.
    """
    finest = min(
        (torch.finfo(tensor.dtype).eps for _, tensor in usual_outputs if is_inexact(tensor)), default=torch.finfo(torch.float32).eps
    )
    floats = [tensor for _, tensor in sample.inputs + sample.params if is_inexact(tensor)]
    perturbed = [tensor for tensor in floats if torch.finfo(tensor.dtype).eps <= finest]
    original_data = [tensor.data for tensor in perturbed]
    generator = torch.Generator(perturbed[0].device if perturbed else "cpu").manual_seed(seed)
    try:
        for tensor in perturbed:
            factor = 1 + epsilons * torch.finfo(tensor.dtype).eps
            signs = torch.rand(tensor.shape, generator=generator, device=tensor.device) < 0.5
            tensor.data = torch.where(
                signs, tensor.data * factor, tensor.data / factor
            )  # replace instead of writing: an expanded tensor cannot be written
        yield
    finally:
        for tensor, before in zip(perturbed, original_data):
            tensor.data = before
