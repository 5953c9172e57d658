"""A task on the device: its tensors as reference and kernels get them, drawn anew and changed between calls, and what must come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import torch

from evokernel.core.errors import CandidateError
from evokernel.reference.module import Reference, held_tensors

LOOSE = 4.0
"""A timed result may be so many times as far off as one that was checked: what is compared with was computed on the device, too."""
ALIKE = 0.999
"""Of whole numbers, such as places of a largest element, may be as many equal: ties are broken either way."""


class Scene:
    """Inputs stay where they are; their contents change."""

    def __init__(self, source: str, task: str, bench: Mapping[str, int], seed: int, tolerance: tuple[float, float]) -> None:
        self.random, self.tolerance = Random(seed), tolerance
        self.reference = Reference(source, task, bench)
        sample = self.reference.sample(self.random.getrandbits(40))
        self.module = sample.module
        self.hosts = [tensor for _, tensor in sample.inputs]
        places: dict[int, torch.Tensor] = {}
        self.args = tuple(moved(value, places) for value in sample.args)
        self.module.to("cuda")
        for part in self.module.modules():
            for key, value in vars(part).items():
                if isinstance(value, torch.Tensor):
                    setattr(part, key, value.to("cuda"))
        self.inputs = [places[id(tensor)] for tensor in self.hosts]
        self.params = [tensor.detach() for _, tensor in held_tensors(self.module)]
        self.given = [tensor.contiguous() for tensor in (*self.inputs, *self.params)]
        """As kernels get them."""
        self.outputs = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in self.expected()]

    def eager(self) -> object:
        with torch.no_grad():
            return self.module(*self.args)

    def expected(self) -> list[torch.Tensor]:
        with in_full_precision():
            return [leaf.detach().contiguous() for leaf in tensors(self.eager())]

    def draw(self) -> None:
        """Other contents, from a seed of our own."""
        sample = self.reference.sample(self.random.getrandbits(40), self.module)
        for place, (_, tensor) in zip(self.inputs, sample.inputs):
            place.copy_(tensor)
        self.tell()

    def change(self) -> None:
        """Two elements of every input of floats change places: nothing that was remembered of the inputs is still true."""
        for place in self.inputs:
            if place.is_floating_point() and place.numel() > 1 and place.is_contiguous():
                flat = place.view(-1)
                one, other = (self.random.randrange(flat.numel()) for _ in range(2))
                flat[[one, other]] = flat[[other, one]]
        self.tell()

    def tell(self) -> None:
        for place, own in zip((*self.inputs, *self.params), self.given):
            if own.data_ptr() != place.data_ptr():
                own.copy_(place)

    @staticmethod
    def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
        """Bit by bit, so that even NaN is equal to itself."""
        return not one.numel() or torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8))

    def refuse_wrong(self) -> None:
        """What a timed call left in the outputs."""
        for number, (output, wanted) in enumerate(zip(self.outputs, self.expected(), strict=True)):
            if not is_close(output, wanted, *self.tolerance):
                detail = f"output {number} of a timed call is wrong, where earlier ones were right: keep nothing between calls"
                raise CandidateError("mismatch", detail)


@contextmanager
def in_full_precision() -> Iterator[None]:
    """PyTorch's convolutions round their inputs to ten bits unless told otherwise: fast enough for a baseline, too coarse to judge by."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    kept = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = kept


def is_close(output: torch.Tensor, wanted: torch.Tensor, atol: float, rtol: float) -> bool:
    """Equal as far as two ways to compute it are."""
    if not output.is_floating_point():
        return output.numel() == 0 or float((output == wanted).float().mean()) >= ALIKE
    one, other = output.float() if output.dtype != torch.float64 else output, wanted.float() if wanted.dtype != torch.float64 else wanted
    return bool(torch.isclose(one, other, atol=LOOSE * atol, rtol=LOOSE * rtol, equal_nan=True).all())


def tensors(value: object) -> Iterator[torch.Tensor]:
    """What lists, tuples and dictionaries hold, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def moved(value: Any, places: dict[int, torch.Tensor]) -> Any:
    """The same nest of arguments on the device; `places` tells which tensor became which."""
    if isinstance(value, torch.Tensor):
        if id(value) not in places:
            places[id(value)] = value.to("cuda")
        return places[id(value)]
    if isinstance(value, Mapping):
        return {key: moved(item, places) for key, item in value.items()}
    return type(value)(moved(item, places) for item in value) if isinstance(value, list | tuple) else value
