"""Draws samples of a task directly on a device: large inputs are never on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from evokernel.core.errors import UserError
from evokernel.reference.module import NamedTensor, Reference, Sample, module_tensors


def draw_on_device(reference: Reference, seed: int, device: str, module: torch.nn.Module | None = None) -> Sample:
    """Draw a sample on a device: equal seeds give equal samples there, with other values than on the host.

    A task file that cannot create its tensors there draws them on the host, from which they are moved.
    """
    try:
        with torch.device(device):
            sample = reference.sample(seed, module)
    except UserError:
        sample = reference.sample(seed, module)
    return move_sample(sample, device)


def move_sample(sample: Sample, device: str) -> Sample:
    """Move the tensors of a sample that are elsewhere to a device."""
    moved_tensors: dict[int, torch.Tensor] = {}
    args = tuple(move_tensors(value, device, moved_tensors) for value in sample.args)
    module = sample.module.to(device)
    for part in module.modules():
        for key, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                setattr(part, key, value.to(device))
    params = tuple(NamedTensor(name, tensor) for (name, _), (_, tensor) in zip(sample.params, module_tensors(module), strict=True))
    inputs = tuple(NamedTensor(name, moved_tensors[id(tensor)]) for name, tensor in sample.inputs)
    return replace(sample, module=module, args=args, inputs=inputs, params=params)


def move_tensors(value: Any, device: str, moved_tensors: dict[int, torch.Tensor]) -> Any:
    """Move nested arguments to a device; `moved_tensors` maps the id of each tensor to the one in its place."""
    if isinstance(value, torch.Tensor):
        if id(value) not in moved_tensors:
            moved_tensors[id(value)] = value.to(device)
        return moved_tensors[id(value)]
    if isinstance(value, Mapping):
        return {key: move_tensors(item, device, moved_tensors) for key, item in value.items()}
    return type(value)(move_tensors(item, device, moved_tensors) for item in value) if isinstance(value, list | tuple) else value


def have_equal_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two contiguous tensors have equal bits, so that NaN equals itself."""
    return not one.numel() or torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


@contextmanager
def disable_tf32() -> Iterator[None]:
    """Disable TF32, to which PyTorch's convolutions round by default: fast for a baseline, too coarse for expected values."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    previous = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = previous
