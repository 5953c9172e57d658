"""The sweep's Pallas: blocks that stream through VMEM, products on the matrix unit, accumulators in scratch. Every stage is a function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evokernel.core.records import Signature
from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Dialect, Written
from evokernel.generators.template_search.dialects.pallas.emit import number
from evokernel.generators.template_search.graph import Node, Num, Shape
from evokernel.generators.template_search.sketch import Described, Facts
from evokernel.generators.template_search.stage_planner import Plan, Stage

Own = Mapping[tuple[str, ...], str]
"""Arguments by their shapes, as these are spelt."""


def frame(signature: Signature, plan: Plan, written: list[Written], shared: Choice) -> Facts:
    """The entry point: a call per stage, its result in the shape others know it by."""
    tensors = {f"in_{t.name}": len(t.shape) for t in (*signature.inputs, *signature.params)}
    own = {tuple(f"{name}.shape[{i}]" for i in range(rank)): name for name, rank in reversed(tensors.items()) if rank}
    calls = [call(w, own) for w in written]
    outputs = [o.name for o in signature.outputs]
    return {
        "params": ", ".join([*tensors, *(f"arg_{s.name}" for s in signature.scalars)]), "calls": calls,
        "returned": outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})",
    }  # fmt: skip


def call(written: Written, own: Own) -> str:
    """The call of a stage."""
    given = [passed(g.value, own) for g in written.described.given]
    like = own.get(spelt(written.stage.out.shape))
    if like and "flat" in written.described.traits:  # rows of the last axis, said for any number of axes: whoever copies it may have others
        sizes = {"n0": f"{like}.size // {like}.shape[-1]", "n1": f"{like}.shape[-1]"}
        given = [sizes.get(g.name, text) for g, text in zip(written.described.given, given)]
    return f"{written.stage.out.name} = {written.name}({', '.join(given)}).reshape({shape(written.stage.out.shape, own)})"


def prepare(stage: Stage, described: Described, d: Choice) -> Facts:
    """The parameters of a stage's function."""
    return {"params": ", ".join(g.name for g in described.given)}


def passed(value: Node | Num, own: Own) -> str:
    """An argument at the call of a stage; tensors in the shape the stage sees them in."""
    if isinstance(value, Num):
        return number(value)
    return value.name if own.get(spelt(value.shape)) == value.name else f"{value.name}.reshape({shape(value.shape, own)})"


def shape(sizes: Shape, own: Own) -> str:
    """A shape as Python writes it; an argument's own by its name."""
    numbers = spelt(sizes)
    return f"{own[numbers]}.shape" if numbers in own else f"({', '.join(numbers)}{',' if len(numbers) == 1 else ''})"


def spelt(sizes: Shape) -> tuple[str, ...]:
    """The numbers of a shape."""
    return tuple(number(n) for n in sizes)


dialect = Dialect(folder=Path(__file__).parent, file="kernel.py", fence="python", frame=frame, prepare=prepare, spaced=True)
