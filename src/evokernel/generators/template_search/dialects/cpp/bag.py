"""Rows of a table added up, averaged or their largest: so many, by their numbers, to each row of the result."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """How many bags of how many rows of which width."""
    table, rows, *weights = form.tensors
    if any(t.dtype != "float32" for t in (table, *weights)) or rows.dtype not in ("int64", "int32"):
        raise NoSketch(f"bags of {table.dtype} rows by {rows.dtype} numbers")
    tensors = (Given("table", table), Given("rows", rows), *(Given("weights", w) for w in weights))
    sizes = (Given("bags", rows.shape[0]), Given("each", rows.shape[1]), Given("width", product(table.shape[1:])))
    return Described((*tensors, *sizes), {"kind": form.root.name, "weighted": bool(weights)})


def walks(taken: Choice) -> bool:
    """Whether the inner loop is written out."""
    return taken["order"] == "rows" and taken["simd"] != "omp"


sketch = Sketch(
    decisions=(
        ORDER,
        SIMD, LANES, UNROLL._replace(when=walks),
        Decision("hold", ("memory", "registers"), lambda taken: taken.get("simd") == "vec"),
        TAIL._replace(options=("scalar", "assume")),
        Decision("prefetch", ("none", "1", "4", "16"), lambda taken: taken["order"] == "rows"),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
