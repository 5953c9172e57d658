"""Test cases of a candidate: inputs drawn from a seed at a size, with the outputs of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.core.seeds import seed_from_text
from evokernel.verify.case_factory import CaseData, CaseFactory, get_factory
from evokernel.verify.compare import FLOATS, ExpectedOutput
from evokernel.verify.input_distributions import classify_structure

if TYPE_CHECKING:
    from evokernel.reference.module import Reference


class Case:
    """One set of inputs with its expected outputs, which are computed at first use."""

    def __init__(self, data: CaseData) -> None:
        self.data = data
        self.size, self.kind, self.sample, self.outputs = data.size, data.kind, data.sample, data.outputs
        self.inputs, self.scalars = data.inputs, data.scalars
        self.accepted_results: list[np.ndarray] = []
        """The candidate's outputs once they were found correct; from then on every run must reproduce them bit by bit."""
        self.recomputed_expected: tuple[ExpectedOutput, ...] | None = None

    @property
    def expected(self) -> tuple[ExpectedOutput, ...]:
        """The expected outputs. Raise UnsuitableInputs if the operator turns out not to be defined for these inputs."""
        return self.data.expected if self.recomputed_expected is None else self.recomputed_expected


def find_changeable_inputs(case: Case) -> list[int]:
    """Return the indices of inputs and parameters whose floats may swap places: each array shares memory with the reference's tensor, and
    with no other.

    Structured inputs such as triangles, masks and probabilities are excluded: a kernel may rely on the structure of a task's inputs.
    """
    tensors = [item.tensor for item in (*case.sample.inputs, *case.sample.params)]
    owners = Counter(tensor.untyped_storage().data_ptr() for tensor in tensors)
    return [
        index
        for index, (array, tensor) in enumerate(zip(case.inputs, tensors, strict=True))
        if array.dtype in FLOATS
        and array.data.size > 1
        and array.data.ctypes.data == tensor.data_ptr()
        and owners[tensor.untyped_storage().data_ptr()] == 1
        and classify_structure(tensor.detach().double()) == "free"
    ]


class Cases:
    """The cases of one trial. While it is open, torch uses as many threads as the kernel may.

    Other candidates may share the cases of `get_planned_case`, so they must not be changed. `draw_case` draws private ones.
    """

    def __init__(self, task: Task, seed: int, threads: int = 1, *, protocol: str = "strict", is_secret: bool = False) -> None:
        self.task, self.seed, self.threads = task, seed, threads
        self.protocol, self.is_secret = protocol, is_secret
        self.threads_before: int | None = None
        self.cached_factory: CaseFactory | None = None

    @property
    def factory(self) -> CaseFactory:
        """The factory of the task's cases; torch is imported at first use."""
        if self.cached_factory is None:
            try:
                import torch
            except ModuleNotFoundError as error:
                raise UserError("verifying kernels requires PyTorch: pip install 'evokernel[torch]'") from error
            self.threads_before = torch.get_num_threads()
            torch.set_num_threads(self.threads)
            self.cached_factory = get_factory(self.task, self.protocol, self.is_secret)
        return self.cached_factory

    def close(self) -> None:
        """Restore the number of torch threads."""
        if self.threads_before is not None:
            import torch

            torch.set_num_threads(self.threads_before)

    def reference_at(self, size: str) -> Reference:
        """Return the task's reference at a size."""
        return self.factory.reference_at(size).reference

    def outputs_at(self, size: str) -> tuple[Array, ...]:
        """Return the outputs at a size, without values."""
        return self.factory.reference_at(size).outputs

    def has_size(self, size: str) -> bool:
        """Whether the task has a size; an odd size does not exist for every task."""
        return self.factory.has_size(size)

    def get_planned_case(self, size: str, index: int, kind: str = "own") -> Case | None:
        """Return case number `index` of a kind, or None if the operator is not defined for this kind."""
        data = self.factory.get_case(size, index, kind, self.seed)
        return None if data is None else Case(data)

    def draw_case(self, size: str, index: int, kind: str = "own") -> Case:
        """Draw a new case: equal for equal seeds, different for every index. Raise UnsuitableInputs if the operator is not defined for the
        kind."""
        return Case(self.factory.draw_case(size, kind, seed_from_text(f"{self.seed}/{self.task.id}/{size}/{kind}/{index}")))

    def recompute_expected(self, case: Case) -> None:
        """Compute the expected outputs of a case again after its inputs were changed."""
        case.recomputed_expected = self.factory.recompute_expected(case.data)
        case.accepted_results = []

    def make_baseline(self, case: Case, module: Callable[..., object] | None = None) -> Callable[[], object]:
        """Return the reference on this case as a function to time."""
        return self.reference_at(case.size).baseline_call(case.sample, module)


__all__ = ["Case", "Cases", "find_changeable_inputs", "seed_from_text"]
