"""Rows of a table by index: from a table that lies in VMEM, or copied one by one from where it is."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, SEMANTICS
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """The table as rows, and the indices in one axis."""
    table, index = form.tensors
    if table.dtype != "float32" or not index.dtype.startswith("int"):
        raise NoSketch(f"rows of a {table.dtype} table by {index.dtype}")
    return Described((Given("table", table), Given("index", index)), {})


sketch = Sketch(
    decisions=(
        Decision("source", ("held", "copied")),
        Decision("rows", ("20", "64", "128", "256", "512")),
        Decision("lanes", ("all", "128"), one_of("source", "held")),
        Decision("buffers", ("1", "2"), one_of("source", "held")),
        Decision("store", ("row", "tile"), one_of("source", "held")),
        Decision("unroll", ("2", "4", "8")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
