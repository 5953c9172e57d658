"""A task's tensors on the GPU for timing: drawn anew and changed between calls, with the expected outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import torch

from evokernel.core.errors import CandidateError
from evokernel.reference.device_sample import disable_tf32, draw_on_device
from evokernel.reference.input_distributions import classify_structure
from evokernel.reference.module import Reference
from evokernel.reference.tensor_compare import list_chunks

TOLERANCE_FACTOR = 4.0
"""Factor on the tolerance for timed results, because their expected values are also computed on the device."""
EXPONENTS = (-2, -1, 0, 1, 2)
"""Powers of two by which an input is scaled if only a common factor preserves its structure."""
MIN_EQUAL_SHARE = 0.999
"""Share of integers, such as indices of a largest element, that must be equal; ties may be broken either way."""


class DeviceInputs:
    """Tensors at fixed addresses whose contents change between calls. They are drawn on the device."""

    def __init__(
        self, source: str, task: str, bench: Mapping[str, int], seed: int, tolerance: tuple[float, float], device: str = "cuda"
    ) -> None:
        self.random, self.tolerance, self.device = Random(seed), tolerance, device
        self.reference = Reference(source, task, bench)
        sample = draw_on_device(self.reference, self.random.getrandbits(40), device)
        self.module, self.args = sample.module, sample.args
        self.inputs = [tensor.detach() for _, tensor in sample.inputs]
        self.params = [tensor.detach() for _, tensor in sample.params]
        self.structures = [find_structure(tensor) for tensor in self.inputs]
        self.exponents = [0] * len(self.inputs)
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
        sample = draw_on_device(self.reference, self.random.getrandbits(40), self.device, self.module)
        for place, (_, tensor) in zip(self.inputs, sample.inputs):
            place.copy_(tensor)
        self.exponents = [0] * len(self.inputs)
        self.sync_kernel_inputs()

    def change(self) -> None:
        """Changes every float input a little, so that a kernel cannot reuse earlier results.

        Two elements swap places. A triangle, a symmetric matrix or sorted values are scaled instead: a kernel may rely on the structure.
        Masks and probabilities stay as they are until the next draw.
        """
        for number, (place, structure) in enumerate(zip(self.inputs, self.structures, strict=True)):
            if structure == "free":
                flat = place.view(-1)
                one, other = (self.random.randrange(flat.numel()) for _ in range(2))
                flat[[one, other]] = flat[[other, one]]
            elif structure == "scaled":
                exponent = self.random.choice([other for other in EXPONENTS if other != self.exponents[number]])
                place.mul_(2.0 ** (exponent - self.exponents[number]))
                self.exponents[number] = exponent
        self.sync_kernel_inputs()

    def sync_kernel_inputs(self) -> None:
        for place, own in zip((*self.inputs, *self.params), self.kernel_inputs):
            if own.data_ptr() != place.data_ptr():
                own.copy_(place)

    def check_outputs(self) -> None:
        """Raises CandidateError if the outputs of a timed call are wrong."""
        for number, (output, expected) in enumerate(zip(self.outputs, self.expected_outputs(), strict=True)):
            if not is_close(output, expected, *self.tolerance):
                detail = f"output {number} of a timed call is wrong, although earlier calls were correct; keep no state between calls"
                raise CandidateError("mismatch", detail)


def find_structure(tensor: torch.Tensor) -> str:
    """Returns how a tensor may change: `free`, `scaled` or `fixed`."""
    if not tensor.is_floating_point() or tensor.numel() <= 1 or not tensor.is_contiguous():
        return "fixed"
    return classify_structure(tensor.float() if tensor.element_size() < 4 else tensor)


def is_close(output: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> bool:
    """Whether two results agree within the tolerance of timed calls."""
    flat, other = output.view(-1), expected.view(-1)
    if not output.is_floating_point():
        equal = sum(int((flat[part] == other[part]).sum()) for part in list_chunks(flat.numel()))
        return bool(equal >= MIN_EQUAL_SHARE * output.numel())
    wide = torch.float64 if output.dtype == torch.float64 else torch.float32
    limits = {"atol": TOLERANCE_FACTOR * atol, "rtol": TOLERANCE_FACTOR * rtol}
    return all(
        bool(torch.isclose(flat[part].to(wide), other[part].to(wide), **limits, equal_nan=True).all()) for part in list_chunks(flat.numel())
    )


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
