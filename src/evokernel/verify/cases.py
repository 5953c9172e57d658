"""What a candidate is tried on: inputs of a kind, drawn from a seed at a size, and what the reference makes of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array
from evokernel.core.records import Task
from evokernel.verify.case_factory import Answer, CaseFactory, made
from evokernel.verify.compare import FLOATS, Expected
from evokernel.verify.input_distributions import structure
from evokernel.verify.tolerance import Unsuited

if TYPE_CHECKING:
    from evokernel.reference.module import Reference

SIZES = ("small", "held_out", "odd", "bench")


class Case:
    """One set of inputs with the outputs it must give, which are computed when first asked for."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.size, self.kind, self.sample, self.outputs = answer.size, answer.kind, answer.sample, answer.outputs
        self.inputs, self.scalars = answer.inputs, answer.scalars
        self.results: list[np.ndarray] = []
        """What a candidate made of it, once that was found right: from then on it must be the same to the bit."""
        self.renewed: tuple[Expected, ...] | None = None

    @property
    def expected(self) -> tuple[Expected, ...]:
        """Raises Unsuited when the operator turns out not to be made for these inputs."""
        return self.answer.expected if self.renewed is None else self.renewed


def changeable(case: Case) -> list[int]:
    """The inputs and parameters whose floats may change places: a change of the array is one of the reference's tensor, and of no other.

    Not those of a triangle, a mask, probabilities: a kernel may rely on what a task's inputs always are.
    """
    tensors = [named.tensor for named in (*case.sample.inputs, *case.sample.params)]
    owners = Counter(tensor.untyped_storage().data_ptr() for tensor in tensors)
    return [
        index
        for index, (array, tensor) in enumerate(zip(case.inputs, tensors, strict=True))
        if array.dtype in FLOATS
        and array.data.size > 1
        and array.data.ctypes.data == tensor.data_ptr()
        and owners[tensor.untyped_storage().data_ptr()] == 1
        and structure(tensor.detach().double()) == "free"
    ]


class Cases:
    """The cases of one trial. While it is open, torch uses as many threads as the kernel may.

    Those of `planned` may serve other candidates, too, so nobody may change them. `draw` makes new ones, of which nobody else knows.
    """

    def __init__(self, task: Task, seed: int, threads: int = 1, *, protocol: str = "strict", is_secret: bool = False) -> None:
        self.task, self.seed, self.threads = task, seed, threads
        self.protocol, self.is_secret = protocol, is_secret
        self.threads_before: int | None = None
        self.opened: CaseFactory | None = None

    @property
    def maker(self) -> CaseFactory:
        """The task's references and what is kept of them; torch is needed from here on."""
        if self.opened is None:
            try:
                import torch
            except ModuleNotFoundError as error:
                raise UserError("judging kernels needs PyTorch: pip install 'evokernel[torch]'") from error
            self.threads_before = torch.get_num_threads()
            torch.set_num_threads(self.threads)
            self.opened = made(self.task, self.protocol, self.is_secret)
        return self.opened

    def close(self) -> None:
        if self.threads_before is not None:
            import torch

            torch.set_num_threads(self.threads_before)

    def reference(self, size: str) -> Reference:
        """The task's module at a size."""
        return self.maker.sized(size).reference

    def outputs(self, size: str) -> tuple[Array, ...]:
        """What comes out at a size, without values."""
        return self.maker.sized(size).outputs

    def has(self, size: str) -> bool:
        """Whether the task can be had at a size; odd ones are not to be found for every task."""
        return self.maker.has(size)

    def planned(self, size: str, index: int, kind: str = "own") -> Case | None:
        """The index-th case of a kind; None where the operator is not made for such."""
        answer = self.maker.case(size, index, kind, self.seed)
        return None if answer is None else Case(answer)

    def draw(self, size: str, index: int, kind: str = "own") -> Case:
        """A new case: equal for equal seeds, other for every index. Raises Unsuited where the operator is not made for the kind."""
        return Case(self.maker.make(size, kind, seed_of(f"{self.seed}/{self.task.id}/{size}/{kind}/{index}")))

    def renew(self, case: Case) -> None:
        """Asks the reference again, after the inputs of a case were changed."""
        case.renewed = self.maker.again(case.answer)
        case.results = []

    def baseline(self, case: Case, module: Callable[..., object] | None = None) -> Callable[[], object]:
        """The reference on this case, as something to time."""
        return self.reference(case.size).baseline(case.sample, module)


def seed_of(text: str) -> int:
    """A seed that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


__all__ = ["SIZES", "Case", "Cases", "Unsuited", "changeable", "seed_of"]
