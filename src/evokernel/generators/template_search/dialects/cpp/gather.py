"""Rows of a table, by their numbers."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """How many rows of which width."""
    table, rows = form.tensors
    if table.dtype != "float32" or rows.dtype not in ("int64", "int32"):
        raise NoSketch(f"rows of a {table.dtype} table by {rows.dtype} numbers")
    given = (Given("table", table), Given("rows", rows), Given("count", product(rows.shape)), Given("width", product(table.shape[1:])))
    return Described(given, {"has_math": False})


sketch = Sketch(
    decisions=(
        ORDER,
        Decision("algorithm", ("memcpy", "loop"), one_of("order", "rows")),
        SIMD._replace(when=one_of("algorithm", "loop")),
        LANES,
        UNROLL._replace(when=one_of("simd", "vec")),
        TAIL._replace(options=("scalar", "overlap", "assume"), when=one_of("simd", "vec")),
        Decision("prefetch", ("none", "1", "4", "16"), one_of("order", "rows")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
