"""Elementwise steps over blocks of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    BUFFERS,
    CONVERT,
    DIVIDE,
    EDGE,
    EDGE_INSIDE,
    LIMIT,
    PIPELINE,
    POSITIONS,
    ROWS,
    SEMANTICS,
    STRIP,
    divides,
    is_piped,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import function
from evokernel.generators.template_search.dialects.pallas.layouts import Result, as_rows, narrow, times
from evokernel.generators.template_search.forms import Axis, Form, Operand, product
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.sketch import Described, Given, Sketch, free_numbers


def two_axes(form: Form) -> tuple[Sequence[Axis], Sequence[Operand]]:
    """The loops, two at least: one over everything is taken as rows of the last axis."""
    if len(form.axes) > 1:
        return form.axes, form.operands
    shape = form.root.shape
    if any(o.node.op == "index" for o in form.operands):
        return [Axis(Num.of(1)), Axis(product(shape))], [Operand(o.node, (False, *o.present)) for o in form.operands]
    last = shape[-1] if shape else Num.of(1)
    filled = bool(form.axes)
    return [Axis(product(shape[:-1])), Axis(last)], [Operand(o.node, (filled and o.is_full,) * 2) for o in form.operands]


def describe(form: Form) -> Described:
    """Arrays seen as rows and columns; the columns are the last axes that all tensors have or lack together."""
    names = {o.node: f"x{i}" for i, o in enumerate(form.operands)}
    free = free_numbers(form.root)
    axes, operands = two_axes(form)
    layout = as_rows(axes, operands, names, [len(axes) - 1], True)

    def body(divide: str) -> str:
        return function("body", form.root, names, divide, numbers=free)

    body("exact")
    given = (
        *(Given(names[o.node], o.node) for o in form.operands if o.node.op == "leaf"),
        *(Given(f"n{i}", a.extent) for i, a in enumerate(axes)),
        *(Given(s, n) for n, s in free.items()),
    )  # fmt: skip
    facts = {
        "body": body, "operands": layout.views, "rows": times(range(len(axes) - 1)), "cols": f"n{len(axes) - 1}",
        "result": Result(form.root),
    }  # fmt: skip
    positions = any(v.counted for v in layout.views)
    same = bool(form.axes) and all(o.is_full for o in form.operands) and not any(o.node.op == "index" for o in form.operands)
    traits = ({"flat"} if same else {"broadcast"}) | ({"divide"} if divides(form.root) else set()) | ({"index"} if positions else set())
    return Described(given, facts, frozenset(traits | narrow(form.root, form.operands)))


sketch = Sketch(
    decisions=(
        Decision("view", ("rows", "flat"), trait="flat"),
        Decision("width", ("128", "512", "1024", "4096"), one_of("view", "flat")),
        PIPELINE,
        ROWS,
        Decision("cols", ("all", "100", "256", "512"), lambda taken: taken.get("view") != "flat" and taken["pipeline"] != "manual"),
        BUFFERS, EDGE, EDGE_INSIDE, STRIP, DIVIDE, CONVERT,
        POSITIONS._replace(when=lambda taken: is_piped(taken) and taken.get("strip") == "none"),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
