"""A task's tensors on the GPU for timing: drawn anew and changed between calls, with the expected outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import torch

from evokernel.core.errors import CandidateError
from evokernel.reference.module import Reference, module_tensors

TOLERANCE_FACTOR = 4.0
"""Factor on the tolerance for timed results, because their expected values are also computed on the device."""
MIN_EQUAL_SHARE = 0.999
"""Share of integers, such as indices of a largest element, that must be equal; ties may be broken either way."""


class DeviceInputs:
    """Tensors at fixed addresses whose contents change between calls."""

    def __init__(self, source: str, task: str, bench: Mapping[str, int], seed: int, tolerance: tuple[float, float]) -> None:
        self.random, self.tolerance = Random(seed), tolerance
        self.reference = Reference(source, task, bench)
        sample = self.reference.sample(self.random.getrandbits(40))
        self.module = sample.module
        self.hosts = [tensor for _, tensor in sample.inputs]
        places: dict[int, torch.Tensor] = {}
        self.args = tuple(move_to_device(value, places) for value in sample.args)
        self.module.to("cuda")
        for part in self.module.modules():
            for key, value in vars(part).items():
                if isinstance(value, torch.Tensor):
                    setattr(part, key, value.to("cuda"))
        self.inputs = [places[id(tensor)] for tensor in self.hosts]
        self.params = [tensor.detach() for _, tensor in module_tensors(self.module)]
        self.kernel_inputs = [tensor.contiguous() for tensor in (*self.inputs, *self.params)]
        """Inputs and parameters as kernels get them."""
        self.outputs = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in self.expected_outputs()]

    def run_eager(self) -> object:
        with torch.no_grad():
            return self.module(*self.args)

    def expected_outputs(self) -> list[torch.Tensor]:
        with disable_tf32():
            return [leaf.detach().contiguous() for leaf in flatten_tensors(self.run_eager())]

    def draw(self) -> None:
        """Draws new contents from the verifier's own seed."""
        sample = self.reference.sample(self.random.getrandbits(40), self.module)
        for place, (_, tensor) in zip(self.inputs, sample.inputs):
            place.copy_(tensor)
        self.sync_kernel_inputs()

    def change(self) -> None:
        """Swaps two elements of every float input, so that a kernel cannot reuse earlier results."""
        for place in self.inputs:
            if place.is_floating_point() and place.numel() > 1 and place.is_contiguous():
                flat = place.view(-1)
                one, other = (self.random.randrange(flat.numel()) for _ in range(2))
                flat[[one, other]] = flat[[other, one]]
        self.sync_kernel_inputs()

    def sync_kernel_inputs(self) -> None:
        for place, own in zip((*self.inputs, *self.params), self.kernel_inputs):
            if own.data_ptr() != place.data_ptr():
                own.copy_(place)

    @staticmethod
    def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
        """Whether two tensors have equal bits, so that NaN equals itself."""
        return not one.numel() or torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8))

    def check_outputs(self) -> None:
        """Raises CandidateError if the outputs of a timed call are wrong."""
        for number, (output, expected) in enumerate(zip(self.outputs, self.expected_outputs(), strict=True)):
            if not is_close(output, expected, *self.tolerance):
                detail = f"output {number} of a timed call is wrong, although earlier calls were correct; keep no state between calls"
                raise CandidateError("mismatch", detail)


@contextmanager
def disable_tf32() -> Iterator[None]:
    """Disables TF32, to which PyTorch's convolutions round by default: fast for a baseline, too coarse for expected values."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    previous = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = previous


def is_close(output: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> bool:
    """Whether two results agree within the tolerance of timed calls."""
    if not output.is_floating_point():
        return output.numel() == 0 or float((output == expected).float().mean()) >= MIN_EQUAL_SHARE
    one, other = (
        output.float() if output.dtype != torch.float64 else output,
        expected.float() if expected.dtype != torch.float64 else expected,
    )
    return bool(torch.isclose(one, other, atol=TOLERANCE_FACTOR * atol, rtol=TOLERANCE_FACTOR * rtol, equal_nan=True).all())


def flatten_tensors(value: object) -> Iterator[torch.Tensor]:
    """Yields the tensors in nested lists, tuples and dictionaries, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from flatten_tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flatten_tensors(item)


def move_to_device(value: Any, places: dict[int, torch.Tensor]) -> Any:
    """Moves nested arguments to the device; `places` maps the id of each tensor to its copy."""
    if isinstance(value, torch.Tensor):
        if id(value) not in places:
            places[id(value)] = value.to("cuda")
        return places[id(value)]
    if isinstance(value, Mapping):
        return {key: move_to_device(item, places) for key, item in value.items()}
    return type(value)(move_to_device(item, places) for item in value) if isinstance(value, list | tuple) else value
