"""A tensor in which elements at given places are replaced or grow."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.dialects.cpp.takealong import walked
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.sketch import Described, Given, Sketch, around


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    x, rows, source = form.tensors
    axis, shared = form.root.dims[0], form.root.name.startswith(SHARED)
    if x.dtype != source.dtype or x.dtype == "bool":
        raise NoSketch(f"{source.dtype} elements put among {x.dtype} ones")
    facts, traits = walked(x, rows, axis, shared)
    given = (Given("x", x), Given("at", rows), Given("source", source), *around(x.shape, source.shape, axis))
    return Described(given, {**facts, "op": "+=" if form.root.name.endswith("add") else "="}, traits)


def walks(taken: Choice) -> bool:
    """Whether the inner loop is written out."""
    return taken.get("simd", "auto") != "omp"


sketch = Sketch(
    decisions=(
        Decision("copied", ("whole", "rows", "loop")),
        SIMD._replace(options=("auto", "omp"), without="copies"),
        SIMD._replace(trait="copies"),
        LANES,
        UNROLL._replace(when=walks),
        TAIL._replace(options=("scalar", "steps", "assume")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
