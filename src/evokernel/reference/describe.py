"""Turns the source of a task file into a Task: signature, sizes, work and tolerances, all derived from the reference."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from evokernel.core.errors import UserError
from evokernel.core.numeric_contract import default_tolerance
from evokernel.core.records import Task
from evokernel.reference.constants import find_constants, remove_assignment, rewrite_constants
from evokernel.reference.degenerate_solutions import Tolerance, draw_samples, find_trivial_solutions
from evokernel.reference.measure import is_finite, measure_shapes, measure_size
from evokernel.reference.module import Reference, outputs_differ
from evokernel.reference.sizes import derive_size_classes, make_layout


def describe_task(source: str, name: str) -> Task:
    """Run the reference at bench size, and at other sizes to find a small and a held-out one.

    The task's source omits `SIZES`, because generators see the source and must not know the held-out sizes.
    """
    measurement = measure_size(source, name, {})
    for tensor in measurement.signature.outputs:
        if 0 in tensor.shape:
            raise UserError(f"task file {name}: Model.forward returned an empty tensor ({tensor.name}). Check the sizes in get_inputs.")
    classes = derive_size_classes(source, name, make_layout(measurement.signature, measurement.finite))
    reference = Reference(source, name, classes.overrides["small"] if measurement.finite is None else {})
    samples = draw_samples(reference, 0)
    outputs = [reference.run(sample) for sample in samples]
    tolerance = default_tolerance(measurement.signature)
    atol, rtol = declared_tolerance(reference, "ATOL", tolerance), declared_tolerance(reference, "RTOL", tolerance)
    notes = {
        "fixed-size": classes.is_fixed,
        "non-finite": not is_finite(outputs[0]),
        "nan-and-inf": bool(reference.namespace.get("NONFINITE", False)),
        "random": outputs_differ(outputs[0], reference.run(samples[0], seed=1)),
        "vacuous": bool(find_trivial_solutions(samples, outputs, Tolerance(atol, rtol))),
    }
    return Task(
        id="",
        family="",
        source=remove_assignment(source, "SIZES"),
        signature=measurement.signature,
        work=measurement.work,
        sizes=classes.overrides,
        atol=atol,
        rtol=rtol,
        tags=tuple(note for note, holds in notes.items() if holds),
    )


def enlarge_task(task: Task, name: str, full: Mapping[str, int]) -> Task:
    """Return a task at its size `full`, measured from shapes only: nothing is allocated.

    The constants in its source become those of `full`; the smaller sizes stay the same and include the present one as `laptop`.
    """
    own = find_constants(ast.parse(task.source))
    if unknown := sorted(set(full) - set(own)):
        raise UserError(f"size full of {name}: {unknown[0]} is not a constant of the task; its constants: {', '.join(own)}")
    source = rewrite_constants(task.source, full)
    measurement = measure_shapes(source, name, {})
    if measurement is None:
        raise UserError(f"size full of {name}: its shapes cannot be computed without values. Remove it from the suite's [full] table.")
    if make_layout(measurement.signature, None).kinds != make_layout(task.signature, None).kinds:
        raise UserError(f"size full of {name} changes the number, rank or dtype of tensors; change sizes only")
    kept = {key: own[key] for key in full}
    smaller = {label: {**kept, **overrides} for label, overrides in task.sizes.items() if label != "bench"}
    sizes = {"bench": {}, "laptop": kept, **smaller}
    return task.model_copy(update={"source": source, "signature": measurement.signature, "work": measurement.work, "sizes": sizes})


def declared_tolerance(reference: Reference, constant: str, default: float) -> float:
    """Return the tolerance that the module sets, or the default."""
    value = reference.namespace.get(constant, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UserError(f"task file {reference.name}: {constant} is {value!r}. Give a non-negative number.")
    return float(value)
