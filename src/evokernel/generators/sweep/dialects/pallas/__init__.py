"""The sweep's Pallas: blocks that stream through VMEM, products on the matrix unit, accumulators in scratch. Every stage is a function."""

from __future__ import annotations

from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.sweep.decisions import Choice
from evokernel.generators.sweep.dialects import Dialect, Written
from evokernel.generators.sweep.dialects.pallas.emit import number
from evokernel.generators.sweep.nodes import Node, Num, Shape
from evokernel.generators.sweep.plan import Plan, Stage
from evokernel.generators.sweep.sketch import Described, Facts


def frame(signature: Signature, plan: Plan, written: list[Written], shared: Choice) -> Facts:
    """The entry point: a call per stage, its result in the shape others know it by."""
    tensors = [f"in_{t.name}" for t in (*signature.inputs, *signature.params)]
    calls = []
    for w in written:
        given = ", ".join(passed(g.value) for g in w.described.given)
        calls.append(f"{w.stage.out.name} = {w.name}({given}).reshape({shape(w.stage.out.shape)})")
    outputs = [o.name for o in signature.outputs]
    return {
        "params": ", ".join([*tensors, *(f"arg_{s.name}" for s in signature.scalars)]), "calls": calls,
        "returned": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
    }  # fmt: skip


def prepare(stage: Stage, described: Described, d: Choice) -> Facts:
    """The parameters of a stage's function."""
    return {"params": ", ".join(g.name for g in described.given)}


def passed(value: Node | Num) -> str:
    """An argument at the call of a stage; tensors in the shape the stage sees them in."""
    return number(value) if isinstance(value, Num) else f"{value.name}.reshape({shape(value.shape)})"


def shape(sizes: Shape) -> str:
    """A shape as Python writes it."""
    return f"({', '.join(number(n) for n in sizes)}{',' if len(sizes) == 1 else ''})"


dialect = Dialect(folder=Path(__file__).parent, file="kernel.py", fence="python", frame=frame, prepare=prepare, spaced=True)
