"""Rows of a table, by their numbers."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import COMMON, ROWS
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """How many rows of which width."""
    table, rows = form.tensors
    if table.dtype != "float32" or rows.dtype not in ("int64", "int32"):
        raise NoSketch(f"rows of a {table.dtype} table by {rows.dtype} numbers")
    given = (Given("table", table), Given("numbers", rows), Given("total", product(rows.shape)), Given("count", product(table.shape[1:])))
    return Described(given, {"step": 2 if rows.dtype == "int64" else 1}, frozenset({"rows"}))


sketch = Sketch(
    decisions=(
        Decision("through", ("bind", "copy", "direct")),
        ROWS, *COMMON,
    ),
    describe=describe,
)  # fmt: skip
"""`through`: one queue from copy to copy, two with an instruction in between, or a queue that only orders copies in with instructions."""
