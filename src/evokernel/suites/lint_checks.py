"""Lint checks of one task at one size: trivial kernels that pass, unused tensors, nondeterminism, non-finite outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from evokernel.core.records import Task
from evokernel.reference.degenerate_solutions import (
    PAPER_TOLERANCE,
    Tolerance,
    draw_samples,
    find_constant_parameters,
    find_trivial_solutions,
    find_unused_tensors,
)
from evokernel.reference.module import NamedTensor, Reference, Sample, outputs_differ

FindingKind = Literal["vacuous", "unused", "constant-parameter", "random", "nondeterministic", "non-finite"]


class Finding(NamedTuple):
    """One problem of a task."""

    kind: FindingKind
    description: str
    protocol: str = ""
    """Protocol whose tolerance was applied; empty if the tolerance does not matter."""


def lint_task(task: Task, overrides: Mapping[str, int], *, thorough: bool = True, seed: int = 0) -> list[Finding]:
    """Check a task at one size, with three sets of inputs for one set of parameters.

    `thorough` also checks for each tensor whether a kernel could ignore it, which takes one run or more per tensor.
    """
    reference = Reference(task.source, task.id, overrides)
    samples = draw_samples(reference, seed)
    outputs = [reference.run(sample) for sample in samples]
    tolerances = {"strict": Tolerance(task.atol, task.rtol), "paper": PAPER_TOLERANCE}
    empty = {protocol: find_trivial_solutions(samples, outputs, tolerance) for protocol, tolerance in tolerances.items()}
    tolerances_to_check = {protocol: tolerance for protocol, tolerance in tolerances.items() if thorough and not empty[protocol]}
    return [
        *check_determinism(reference, samples[0], outputs[0]),
        *(Finding("constant-parameter", name) for name in find_constant_parameters(samples[0])),
        *(Finding("vacuous", what, protocol) for protocol, solutions in empty.items() for what in solutions),
        *(
            Finding("unused", name, protocol)
            for protocol, name in find_unused_tensors(reference, samples, outputs, tolerances_to_check)
            if f"grad_{name}" not in {output.name for output in outputs[0]}  # a bias has a gradient that its values do not influence
        ),
    ]


def check_determinism(reference: Reference, sample: Sample, outputs: tuple[NamedTensor, ...]) -> Iterator[Finding]:
    """Yield a finding if equal inputs give different outputs, or if outputs are not finite."""
    if outputs_differ(outputs, reference.run(sample, seed=sample.seed + 1)):
        if outputs_differ(outputs, reference.run(sample)):
            yield Finding("nondeterministic", "a second run with equal inputs gives different outputs")
        else:
            yield Finding("random", "forward draws random numbers")
    if not all(bool(x.tensor.isfinite().all()) for x in outputs):
        yield Finding("non-finite", "outputs contain NaN or infinities")
