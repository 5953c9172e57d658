"""What a candidate is tried on: inputs from a seed at a size, and what the reference makes of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array
from evokernel.core.records import Task
from evokernel.verify.compare import FLOATS, Expected

if TYPE_CHECKING:
    from evokernel.reference.module import Reference, Sample

SIZES = ("small", "held_out", "bench")
SPREADS = ("own", "wide", "heavy")
"""How inputs are spread, case by case: as the task draws them, four times as wide, and with a few that stand out. Signs stay."""


@dataclass(eq=False)
class Case:
    """One set of inputs with the outputs it must give."""

    size: str
    inputs: tuple[Array, ...]
    scalars: tuple[tuple[str, str, float], ...]
    expected: tuple[Expected, ...]
    sample: Sample
    results: list[np.ndarray] = field(default_factory=list)
    """What a candidate made of it, once that was found right: from then on it must be the same to the bit."""


def spread(sample: Sample, kind: str) -> Sample:
    """The sample with other floating-point inputs, changed in place; whole numbers and parameters stay."""
    import torch

    chance = torch.Generator().manual_seed(sample.seed)
    with torch.no_grad():
        for _, tensor in sample.inputs:
            if tensor.is_floating_point() and tensor.is_contiguous() and tensor.numel() > 1:
                tensor.mul_(4.0 if kind == "wide" else torch.randn(tensor.shape, generator=chance).exp_().to(tensor.dtype))
    return sample


def is_finite(outputs: list[Array]) -> bool:
    """Whether all floating-point outputs are numbers; bfloat16 counts as such, being stored as bits."""
    return all(bool(np.isfinite(output.data).all()) for output in outputs if output.data.dtype.kind == "f")


def changeable(case: Case) -> list[int]:
    """The inputs and parameters whose floats may change places: a change of the array is one of the reference's tensor, and of no other."""
    tensors = [named.tensor for named in (*case.sample.inputs, *case.sample.params)]
    owners = Counter(tensor.untyped_storage().data_ptr() for tensor in tensors)
    return [
        index
        for index, (array, tensor) in enumerate(zip(case.inputs, tensors, strict=True))
        if array.dtype in FLOATS
        and array.data.size > 1
        and array.data.ctypes.data == tensor.data_ptr()
        and owners[tensor.untyped_storage().data_ptr()] == 1
    ]


class Cases:
    """Draws cases of one task; each size's reference is read once. While it is open, torch uses as many threads as the kernel may."""

    def __init__(self, task: Task, seed: int, threads: int = 1) -> None:
        self.task, self.seed, self.threads = task, seed, threads
        self.references: dict[str, Reference] = {}
        self.threads_before: int | None = None

    def close(self) -> None:
        if self.threads_before is not None:
            import torch

            torch.set_num_threads(self.threads_before)

    def reference(self, size: str) -> Reference:
        """The task's module at a size."""
        if size not in self.references:
            try:
                import torch
            except ModuleNotFoundError as error:
                raise UserError("judging kernels needs PyTorch: pip install 'evokernel[torch]'") from error

            from evokernel.reference.module import Reference

            if self.threads_before is None:
                self.threads_before = torch.get_num_threads()
                torch.set_num_threads(self.threads)

            if size not in self.task.sizes:
                raise UserError(f"task {self.task.id} has no size '{size}': describe the task again")
            self.references[size] = Reference(self.task.source, self.task.id, self.task.sizes[size])
        return self.references[size]

    def draw(self, size: str, index: int) -> Case:
        """The index-th case at a size: equal for equal seeds, new for every index."""
        from evokernel.reference.arrays import to_array

        reference = self.reference(size)
        seed = seed_of(f"{self.seed}/{self.task.id}/{size}/{index}")
        sample = reference.sample(seed)
        outputs = [to_array(name, tensor) for name, tensor in reference.run(sample)]
        if size != "bench" and (kind := SPREADS[index % len(SPREADS)]) != "own" and (other := self.spread(reference, seed, kind, outputs)):
            sample, outputs = other
        scalars = tuple((number.name, number.kind, number.value) for number in sample.scalars)
        inputs = sample.arrays()
        self.check(size, inputs, outputs)
        return Case(size, inputs, scalars, tuple(Expected(output, self.task.atol, self.task.rtol) for output in outputs), sample)

    def spread(self, reference: Reference, seed: int, kind: str, usual: list[Array]) -> tuple[Sample, list[Array]] | None:
        """The same case with other inputs; None where the operator is not made for such."""
        from evokernel.reference.arrays import to_array

        sample = spread(reference.sample(seed), kind)
        try:
            outputs = [to_array(name, tensor) for name, tensor in reference.run(sample)]
        except UserError:
            return None
        return (sample, outputs) if is_finite(outputs) or not is_finite(usual) else None

    def renew(self, case: Case) -> None:
        """Asks the reference again, after the inputs of a case were changed."""
        from evokernel.reference.arrays import to_array

        outputs = [to_array(name, tensor) for name, tensor in self.reference(case.size).run(case.sample)]
        case.expected = tuple(Expected(output, self.task.atol, self.task.rtol) for output in outputs)
        case.results = []

    def baseline(self, case: Case, module: Callable[..., object] | None = None) -> Callable[[], object]:
        """The reference on this case, as something to time."""
        return self.reference(case.size).baseline(case.sample, module)

    def check(self, size: str, inputs: tuple[Array, ...], outputs: list[Array]) -> None:
        """The reference must do what the task's signature says."""
        signature = self.task.signature
        said = [(t.name, t.dtype, len(t.shape)) for t in (*signature.inputs, *signature.params, *signature.outputs)]
        found = [(a.name, a.dtype, a.data.ndim) for a in (*inputs, *outputs)]
        if said != found:
            odd = next((f"{a} instead of {b}" for a, b in zip(found, said) if a != b), f"{len(found)} tensors instead of {len(said)}")
            raise UserError(f"task {self.task.id}: at size '{size}' the reference has {odd}; its signature must not depend on the size")


def seed_of(text: str) -> int:
    """A seed that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
