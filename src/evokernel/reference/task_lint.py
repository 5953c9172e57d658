"""What is wrong with a task: what passes without computing, what differs from run to run, what is never put to the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import torch

from evokernel.core.records import Task
from evokernel.reference.degenerate_solutions import PAPER, Tolerance, constants_held, draws, idle, shortcuts
from evokernel.reference.module import Named, Reference, Sample

Kind = Literal["vacuous", "idle", "untried", "random", "unsteady", "non-finite"]


class Finding(NamedTuple):
    """One thing that is wrong."""

    kind: Kind
    what: str
    protocol: str = ""
    """At whose tolerance; empty where that makes no difference."""


def audit(task: Task, overrides: Mapping[str, int], *, thorough: bool = True, seed: int = 0) -> list[Finding]:
    """Looks at a task at one size, with three sets of inputs for one set of parameters.

    `thorough` also asks of each tensor whether it could be left out, which takes a run or more for each.
    """
    reference = Reference(task.source, task.id, overrides)
    samples = draws(reference, seed)
    outputs = [reference.run(sample) for sample in samples]
    tolerances = {"strict": Tolerance(task.atol, task.rtol), "paper": PAPER}
    empty = {protocol: shortcuts(samples, outputs, tolerance) for protocol, tolerance in tolerances.items()}
    asked = {protocol: tolerance for protocol, tolerance in tolerances.items() if thorough and not empty[protocol]}
    return [
        *steadiness(reference, samples[0], outputs[0]),
        *(Finding("untried", name) for name in constants_held(samples[0])),
        *(Finding("vacuous", what, protocol) for protocol, found in empty.items() for what in found),
        *(Finding("idle", name, protocol) for protocol, name in idle(reference, samples, outputs, asked)),
    ]


def steadiness(reference: Reference, sample: Sample, outputs: tuple[Named, ...]) -> Iterator[Finding]:
    """Whether equal inputs give equal outputs, and finite ones."""
    if differ(outputs, reference.run(sample, seed=sample.seed + 1)):
        if differ(outputs, reference.run(sample)):
            yield Finding("unsteady", "equal inputs give other outputs when run again")
        else:
            yield Finding("random", "forward draws random numbers of its own")
    if not all(bool(x.tensor.isfinite().all()) for x in outputs):
        yield Finding("non-finite", "outputs hold NaN or infinities")


def differ(some: tuple[Named, ...], others: tuple[Named, ...]) -> bool:
    """Whether any bit does, NaN aside."""
    return any(not torch.equal(a.tensor.nan_to_num(), b.tensor.nan_to_num()) for a, b in zip(some, others))
