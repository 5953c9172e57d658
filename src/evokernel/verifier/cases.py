"""Test cases of a candidate: inputs drawn from a seed at a size, with the outputs of the reference in its own precision and in float64.

A verifier sees many candidates for the same few tasks, so it caches the facts it computed about a task for a while. It draws new cases for
every candidate, except unusual distributions at the largest size: their outputs take longest to compute, so several candidates share them.
The shared cases are drawn in secret as well, and a candidate cannot pass anything on to the next one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.core.seeds import seed_from_text
from evokernel.reference.input_distributions import (
    DRAW_OPTIONS,
    TIED_KINDS,
    DrawOptions,
    change_one_element,
    classify_structure,
    redraw_inputs,
)
from evokernel.verifier.compare import FLOATS, INEXACT, ExpectedOutput
from evokernel.verifier.odd_sizes import draw_odd_size
from evokernel.verifier.shared_buffers import make_blank_array
from evokernel.verifier.tolerance import Tolerance, UnsuitableInputs

if TYPE_CHECKING:
    from evokernel.reference.module import Reference, Sample
    from evokernel.reference.regions import RegionReference

MAX_AGE_S, MAX_USES = 600.0, 64
MEMORY_SHARE, MAX_CACHE_BYTES, MAX_FACTORIES = 1 / 8, 1 << 30, 256
"""Limits of the cache: the share of the machine's memory for the shared cases of all verifiers (one per core), the bytes in one verifier,
and the number of tasks. The other facts about a task are small and take longer to compute, so they are kept longer."""
FACTORIES: OrderedDict[str, CaseFactory] = OrderedDict()
MAX_REGIONS = 2
REGIONS: OrderedDict[tuple[CaseFactory, str], RegionReference] = OrderedDict()
"""References at sizes that are never run whole, with their parameters, which may take a gigabyte."""


class SizedReference(NamedTuple):
    """The reference of a task at one size."""

    reference: Reference
    outputs: tuple[Array, ...]
    """Names, types and shapes, without values."""


class CaseData:
    """Inputs of a case and its expected outputs, which are computed at first use and then kept."""

    def __init__(self, factory: CaseFactory, size: str, kind: str, sample: Sample) -> None:
        self.factory, self.size, self.kind, self.sample = factory, size, kind, sample
        self.inputs = sample.to_arrays()
        self.scalars = tuple((number.name, number.kind, number.value) for number in sample.scalars)
        self.outputs = factory.reference_at(size).outputs
        self.cached_expected: tuple[ExpectedOutput, ...] | None = None

    @property
    def expected(self) -> tuple[ExpectedOutput, ...]:
        """The expected outputs of the reference, with their tolerances."""
        if self.cached_expected is None:
            self.cached_expected = self.factory.tolerance.compute_expected(
                self.factory.reference_at(self.size).reference, self.size, self.kind, self.sample
            )
            self.factory.check_signature(self.size, self.inputs, [one.array for one in self.cached_expected])
        return self.cached_expected

    @property
    def nbytes(self) -> int:
        """The approximate memory that the case needs."""
        return sum(array.data.nbytes for array in self.inputs) + 6 * sum(array.data.size * array.data.itemsize for array in self.outputs)


class CaseFactory:
    """Draws the cases of one task under one protocol, and caches facts about the task."""

    def __init__(self, task: Task, protocol: str, seed: int) -> None:
        self.task, self.protocol, self.seed = task, protocol, seed
        self.tolerance = Tolerance(task, protocol)
        self.sized_references: dict[str, SizedReference] = {}
        self.draw_options: dict[str, DrawOptions | None] = {"own": DRAW_OPTIONS[0], "near": DRAW_OPTIONS[0]}
        self.shared_cases: OrderedDict[tuple[str, int, str], CaseData | None] = OrderedDict()
        self.size_overrides = dict(task.sizes)
        self.uses, self.created_at_s = 0, time.monotonic()

    def derive_seed(self, *labels: object) -> int:
        """Derive a seed from this factory's secret seed."""
        return seed_from_text("/".join(map(str, (self.seed, self.task.id, *labels))))

    def has_size(self, size: str) -> bool:
        """Whether the task has a size; the odd size is drawn at the first request."""
        if size == "odd" and "odd" not in self.size_overrides:
            odd_size = draw_odd_size(self.task, Random(self.derive_seed("odd"))) if self.protocol == "strict" else None
            self.size_overrides["odd"] = odd_size or {}
        return size in self.size_overrides and (size != "odd" or bool(self.size_overrides["odd"]))

    def reference_at(self, size: str) -> SizedReference:
        """Return the reference at a size. The signature gives the output shapes at the task's own size; at other sizes the reference is run
        once."""
        from evokernel.reference.module import Reference

        if size not in self.sized_references:
            if not self.has_size(size):
                raise UserError(f"task {self.task.id} has no size '{size}': reload the task")
            reference = Reference(self.task.source, self.task.id, self.size_overrides[size])
            self.sized_references[size] = SizedReference(reference, self.infer_outputs(size, reference))
        return self.sized_references[size]

    def infer_outputs(self, size: str, reference: Reference) -> tuple[Array, ...]:
        """Return the outputs at a size, without values."""
        from evokernel.reference.arrays import to_array

        if not self.size_overrides[size]:
            return tuple(make_blank_array(tensor) for tensor in self.task.signature.outputs)
        sample = reference.sample(self.derive_seed("shapes", size))
        outputs = [to_array(name, tensor) for name, tensor in reference.run(sample)]
        self.check_signature(size, sample.to_arrays(), outputs)
        return tuple(Array(a.name, a.dtype, np.broadcast_to(np.zeros((), a.data.dtype), a.data.shape)) for a in outputs)

    def draw_case(self, size: str, kind: str, seed: int) -> CaseData:
        """Draw a case from a seed. Raise UnsuitableInputs if the operator is not defined for this kind of inputs."""
        if (options := self.find_draw_options(kind)) is None:
            raise UnsuitableInputs(kind)
        sample = self.reference_at(size).reference.sample(seed)
        if kind == "near":
            if not change_one_element(sample, seed):
                raise UnsuitableInputs(kind)
        elif kind != "own" and not redraw_inputs(sample, kind, options, seed):
            raise UnsuitableInputs(kind)
        return CaseData(self, size, kind, sample)

    def find_draw_options(self, kind: str) -> DrawOptions | None:
        """Return the widest options of a kind that the reference can handle, found by trial, or None if it can handle none."""
        if kind not in self.draw_options:
            has_integer_output = any(output.dtype not in INEXACT for output in self.task.signature.outputs)
            is_defined = kind != "nonfinite" or "nan-and-inf" in self.task.tags
            has_ties = has_integer_output and kind == "shifted"  # values far from zero round to equal ones
            candidates = [
                options
                for options in DRAW_OPTIONS
                if is_defined and not (has_integer_output and kind in TIED_KINDS) and not (has_ties and options.is_extreme)
            ]
            self.draw_options[kind] = next((options for options in candidates if self.is_suitable(kind, options)), None)
        return self.draw_options[kind]

    def is_suitable(self, kind: str, options: DrawOptions) -> bool:
        """Whether the reference can handle such inputs, tried on two samples of opposite sign that no candidate receives."""
        reference = self.reference_at("small").reference
        for seed in (self.derive_seed("suits", kind) ^ bit for bit in (0, 1)):
            sample = reference.sample(seed)
            if not redraw_inputs(sample, kind, options, seed):
                return False
            try:
                self.tolerance.compute_expected(reference, "small", kind, sample)
            except UnsuitableInputs:
                return False
        return True

    def get_case(self, size: str, index: int, kind: str, seed: int) -> CaseData | None:
        """Return case number `index` of a kind for a candidate's seed, or None if the operator is not defined for this kind.

        A `near` case is almost the `own` case of the same index. The last bit of a seed is a sign, and two consecutive cases have both
        signs.
        """
        is_shared = size == "bench" and kind not in ("own", "near")
        key = (size, index, kind)
        if is_shared and key in self.shared_cases:
            return self.shared_cases[key]
        base_seed = self.seed if is_shared else seed
        case_seed = self.derive_seed(base_seed, size, index, "own" if kind == "near" else kind)
        try:
            case = self.draw_case(size, kind, case_seed - case_seed % 2 + (base_seed + index) % 2)
        except UnsuitableInputs:
            case = None
        if is_shared:
            self.shared_cases[key] = case
        return case

    def get_regions(self, kind: str) -> RegionReference:
        """Return the reference at the timed size, which computes single boxes; it is kept for the next candidates.

        Raises UnsuitableInputs if inputs of this kind cannot be drawn.
        """
        from evokernel.reference.module import Reference
        from evokernel.reference.regions import RegionReference

        key = (self, kind)
        regions = REGIONS.pop(key, None)
        if regions is None:
            while len(REGIONS) >= MAX_REGIONS:
                REGIONS.popitem(last=False)
            reference = Reference(self.task.source, self.task.id, self.size_overrides["bench"])
            regions = RegionReference(reference, self.derive_seed("regions", kind), kind)
        REGIONS[key] = regions
        return regions

    def recompute_expected(self, case: CaseData) -> tuple[ExpectedOutput, ...]:
        """Compute the expected outputs again after the inputs of a case were changed in place."""
        return self.tolerance.recompute_expected(self.reference_at(case.size).reference, case.size, case.sample)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the shared cases."""
        return sum(case.nbytes for case in self.shared_cases.values() if case)

    def check_signature(self, size: str, inputs: tuple[Array, ...], outputs: list[Array]) -> None:
        """Raise UserError if the reference's tensors differ from the task's signature."""
        signature = self.task.signature
        signature_tensors = [(t.name, t.dtype, len(t.shape)) for t in (*signature.inputs, *signature.params, *signature.outputs)]
        actual = [(a.name, a.dtype, a.data.ndim) for a in (*inputs, *outputs)]
        if signature_tensors != actual:
            problem = next(
                (f"{a} instead of {b}" for a, b in zip(actual, signature_tensors) if a != b),
                f"{len(actual)} tensors instead of {len(signature_tensors)}",
            )
            raise UserError(f"task {self.task.id}: at size '{size}' the reference has {problem}; its signature must not depend on the size")


def get_factory(task: Task, protocol: str, is_secret: bool) -> CaseFactory:
    """Return the cached factory of a task; its seed is secret unless runs must be reproducible."""
    key = hashlib.sha256(f"{protocol}\0{is_secret}\0{task.model_dump_json()}".encode()).hexdigest()
    factory = FACTORIES.pop(key, None)
    if factory is None or (is_secret and (factory.uses >= MAX_USES or time.monotonic() - factory.created_at_s > MAX_AGE_S)):
        old_factory, factory = factory, CaseFactory(task, protocol, secrets.randbits(48) if is_secret else 0)
        if old_factory:  # the suitable input kinds are not secret, and take longest to find
            factory.draw_options = old_factory.draw_options
    factory.uses += 1
    FACTORIES[key] = factory
    while len(FACTORIES) > MAX_FACTORIES:
        FACTORIES.popitem(last=False)
    free = compute_cache_capacity() - sum(other.nbytes for other in FACTORIES.values())
    for other in list(FACTORIES.values())[:-1]:  # least recently used first
        if free >= 0:
            break
        free += other.nbytes
        other.shared_cases.clear()
    return factory


@cache
def compute_cache_capacity() -> int:
    """Return the bytes available for the shared cases of all tasks."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MAX_CACHE_BYTES, int(memory * MEMORY_SHARE / (os.cpu_count() or 1)))


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

    def get_regions(self, kind: str) -> RegionReference:
        """Return the reference at the timed size, which computes single boxes."""
        return self.factory.get_regions(kind)

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
