"""A task file's text as a Task: signature, sizes, work and tolerances, all read off the reference."""

from __future__ import annotations

from evokernel.core.errors import UserError
from evokernel.core.records import Signature, Task
from evokernel.reference.constants import without
from evokernel.reference.degenerate_solutions import Tolerance, draws, shortcuts
from evokernel.reference.measure import is_finite, measure
from evokernel.reference.module import Reference
from evokernel.reference.sizes import layout, sizes
from evokernel.reference.task_lint import differ

HALF = ("float16", "bfloat16")


def describe(source: str, name: str) -> Task:
    """Runs the reference at bench size and at whatever sizes it takes to find a small and a held-out one.

    The task's text leaves out `SIZES`: it is what generators are shown, and held-out sizes are not for them.
    """
    found = measure(source, name, {})
    for tensor in found.signature.outputs:
        if 0 in tensor.shape:
            raise UserError(f"task file {name}: Model.forward returned an empty tensor ({tensor.name}); check the sizes in get_inputs")
    classes = sizes(source, name, layout(found.signature, found.finite))
    reference = Reference(source, name, classes.classes["small"] if found.finite is None else {})
    samples = draws(reference, 0)
    outputs = [reference.run(sample) for sample in samples]
    tolerance = default_tolerance(found.signature)
    atol, rtol = declared(reference, "ATOL", tolerance), declared(reference, "RTOL", tolerance)
    notes = {
        "fixed-size": classes.fixed,
        "non-finite": not is_finite(outputs[0]),
        "nan-and-inf": bool(reference.namespace.get("NONFINITE", False)),
        "random": differ(outputs[0], reference.run(samples[0], seed=1)),
        "vacuous": bool(shortcuts(samples, outputs, Tolerance(atol, rtol))),
    }
    return Task(
        id="",
        family="",
        source=without(source, "SIZES"),
        signature=found.signature,
        work=found.work,
        sizes=classes.classes,
        atol=atol,
        rtol=rtol,
        tags=tuple(note for note, holds in notes.items() if holds),
    )


def default_tolerance(signature: Signature) -> float:
    """By the coarsest output; where everything is float64, so fine that float32 inside does not pass for it."""
    if any(tensor.dtype in HALF for tensor in signature.outputs):
        return 1e-2
    floats = {t.dtype for t in (*signature.inputs, *signature.params, *signature.outputs) if "float" in t.dtype}
    return 1e-9 if floats == {"float64"} else 1e-4


def declared(reference: Reference, constant: str, default: float) -> float:
    """A tolerance the module sets, else the default."""
    value = reference.namespace.get(constant, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UserError(f"task file {reference.name}: {constant} is {value!r}; give a number that is not negative")
    return float(value)
