"""A running sum or product along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    LANES,
    LIMIT,
    MASK,
    PASSES,
    ROWS,
    SEMANTICS,
    is_whole,
)
from evokernel.generators.template_search.dialects.pallas.layouts import along
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Sketch


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    (heavy,), (x,) = form.heavy, form.tensors
    if heavy.dtype != "float32":
        raise NoSketch(f"a running sum in {heavy.dtype}")
    if len(heavy.dims) != 1 or heavy.name not in ("sum", "prod"):
        raise NoSketch(f"a running {heavy.name}")
    given, is_strided = along(x, heavy.dims[0])
    facts = {
        "strided": is_strided, "kind": x.dtype, "sign": "+" if heavy.name == "sum" else "*",
        "start": "0.0" if heavy.name == "sum" else "1.0",
    }  # fmt: skip
    place = "strided" if is_strided else "rows"
    return Described(given, facts, frozenset({place, f"{place} {heavy.name}"}))


PRODUCTS = one_of("algorithm", "triangle", "chunks")

sketch = Sketch(
    decisions=(
        Decision("algorithm", ("triangle", "chunks", "shift"), trait="rows sum"),
        Decision("algorithm", ("shift", "turned"), trait="rows prod"),
        Decision("algorithm", ("triangle", "parts", "serial", "shift"), trait="strided sum"),
        Decision("algorithm", ("serial", "shift"), trait="strided prod"),
        LANES._replace(trait="strided"),
        LANES._replace(when=one_of("algorithm", "turned"), trait="rows"),
        ROWS._replace(options=ROWS.options[:6], when=lambda taken: taken["algorithm"] != "turned", trait="rows"),
        Decision("chunk", ("128", "256", "512"), PRODUCTS, trait="rows"),
        Decision("chunk", ("64", "128", "512"), one_of("algorithm", "parts"), trait="strided"),
        Decision("shift", ("roll", "concatenate"), one_of("algorithm", "shift")),
        PASSES._replace(when=one_of("algorithm", "triangle", "chunks", "parts")),
        MASK, SEMANTICS._replace(when=is_whole), ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
