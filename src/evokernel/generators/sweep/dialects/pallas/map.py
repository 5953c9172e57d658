"""Elementwise steps over blocks of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.generators.sweep.decisions import Decision, one_of
from evokernel.generators.sweep.dialects.pallas.emit import function
from evokernel.generators.sweep.dialects.pallas.parts import (
    BUFFERS,
    DIVIDE,
    EDGE,
    EDGE_INSIDE,
    LIMIT,
    PIPELINE,
    ROWS,
    SEMANTICS,
    STRIP,
    divides,
    named,
)  # fmt: skip
from evokernel.generators.sweep.forms import Form, Operand, product
from evokernel.generators.sweep.nodes import NoSketch, Num
from evokernel.generators.sweep.sketch import Described, Given, Sketch, free_numbers


@dataclass(frozen=True)
class View:
    """An array as a kernel walks it."""

    name: str
    kind: str
    """`full`, `vector`, `column` or `one`, by the axes of (rows, cols) it has."""
    view: str
    """How it is made from the argument."""


def seen(name: str, operand: Operand, count: int) -> View:
    """A tensor that broadcasts over n0, n1, ..., as rows (all but the last) and columns."""
    rows, inner = operand.present[:-1], operand.present[-1]
    cols = "cols" if inner else "1"
    if not any(rows):
        return View(name, "vector" if inner else "one", f"{name}.reshape(1, {cols})")
    if all(rows):
        return View(name, "full" if inner else "column", f"{name}.reshape(rows, {cols})")
    own = ", ".join([*(f"n{i}" if there else "1" for i, there in enumerate(rows)), cols])
    full = ", ".join([*(f"n{i}" for i in range(count - 1)), cols])
    return View(name, "full" if inner else "column", f"jnp.broadcast_to({name}.reshape({own}), ({full})).reshape(rows, {cols})")


def describe(form: Form) -> Described:
    """Arrays seen as rows and columns; the columns are the last axes that all tensors have or lack together."""
    if any(o.node.op == "index" for o in form.operands):
        raise NoSketch("positions in an elementwise kernel")
    if form.root.dtype != "float32":
        raise NoSketch(f"a {form.root.dtype} result")
    names, free = named(form.operands), free_numbers(form.root)
    same = all(o.is_full for o in form.operands)
    # One loop over everything is taken as rows of the last axis.
    last = form.root.shape[-1] if form.root.shape else Num.of(1)
    extents = [a.extent for a in form.axes] if len(form.axes) > 1 else [product(form.root.shape[:-1]), last]
    operands = form.operands if len(form.axes) > 1 else tuple(Operand(o.node, (o.is_full, o.is_full)) for o in form.operands)
    views = [seen(names[o.node], o, len(extents)) for o in operands]

    def body(divide: str) -> str:
        return function("body", form.root, names, divide, numbers=free)

    body("exact")
    given = (
        *(Given(names[o.node], o.node) for o in form.operands), *(Given(f"n{i}", n) for i, n in enumerate(extents)),
        *(Given(s, n) for n, s in free.items()),
    )  # fmt: skip
    facts = {"body": body, "operands": views, "rows": " * ".join(f"n{i}" for i in range(len(extents) - 1)), "cols": f"n{len(extents) - 1}"}
    traits = ({"flat"} if same and form.axes else {"broadcast"}) | ({"divide"} if divides(form.root) else set())
    return Described(given, facts, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("view", ("rows", "flat"), trait="flat"),
        Decision("width", ("128", "512", "1024", "4096"), one_of("view", "flat")),
        PIPELINE,
        ROWS,
        Decision("cols", ("all", "100", "256", "512"), lambda taken: taken.get("view") != "flat" and taken["pipeline"] != "manual"),
        BUFFERS, EDGE, EDGE_INSIDE, STRIP, DIVIDE, SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
