"""Elements picked along an axis by an index tensor, or by one index for everything around that axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp import ELEMENTS
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import Node, NoSketch
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.sketch import Described, Facts, Given, Sketch, around


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    x, rows = form.tensors
    shared = form.root.name == SHARED
    facts, traits = walked(x, rows, form.root.dims[0], shared)
    given = (Given("x", x), Given("at", rows), *around(x.shape, form.root.shape, form.root.dims[0]))
    return Described(given, facts, traits)


def walked(x: Node, rows: Node, axis: int, shared: bool) -> tuple[Facts, frozenset[str]]:
    """How runs of elements are walked: along the axis itself where it is the last one, else along what lies behind it."""
    if rows.dtype not in ("int64", "int32") or x.dtype in ("float16", "bfloat16"):
        raise NoSketch(f"{x.dtype} elements at places given as {rows.dtype}")
    last = product(x.shape[axis + 1 :]).is_one
    facts = {"T": ELEMENTS[x.dtype], "K": ELEMENTS[rows.dtype], "last": last, "shared": shared}
    return facts, frozenset({"copies"} if shared and not last else ()) | ({"floats"} if x.dtype == "float32" else set())


sketch = Sketch(
    decisions=(
        ORDER,
        Decision("algorithm", ("memcpy", "loop"), one_of("order", "rows"), trait="copies"),
        SIMD._replace(when=lambda taken: taken["order"] == "rows" and taken.get("algorithm") != "memcpy", trait="floats"),
        LANES,
        UNROLL,
        TAIL._replace(options=("scalar", "steps", "assume")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
