"""Rows of a table added up or averaged, as a product with how much of each row counts; or their largest, row by row."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """How many bags of how many rows of which width."""
    table, places, *weights = form.tensors
    if any(t.dtype != "float32" for t in (table, *weights)) or places.dtype not in ("int64", "int32"):
        raise NoSketch(f"bags of {table.dtype} rows by {places.dtype} numbers")
    tensors = (Given("table", table), Given("at", places), *(Given("weights", w) for w in weights))
    sizes = (Given("bags", places.shape[0]), Given("each", places.shape[1]), Given("width", product(table.shape[1:])))
    traits = {"sums"} if form.root.name != "max" else set()
    return Described((*tensors, *sizes), {"kind": form.root.name, "weighted": bool(weights)}, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("loop", ("unrolled", "rolled"), without="sums"),
        Decision("chunk", ("512", "1024", "2048"), trait="sums"),
        EXACT._replace(trait="sums"),
        Decision("rows", ("12", "64", "128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
