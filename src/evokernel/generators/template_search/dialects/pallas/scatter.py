"""A tensor in which elements at given places are replaced or grow: by comparing positions, row by row, or as a product."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.dialects.pallas.takealong import is_last
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.sketch import Described, Given, Sketch, around


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    x, places, source = form.tensors
    axis, shared, adds = form.root.dims[0], form.root.name.startswith(SHARED), form.root.name.endswith("add")
    if source.dtype != "float32":
        raise NoSketch(f"{source.dtype} elements put among others")
    facts = {"last": is_last(x, places, axis), "shared": shared, "adds": adds}
    given = (Given("x", x), Given("at", places), Given("source", source), *around(x.shape, source.shape, axis))
    traits = {"shared", "shared sum"} if shared and adds else {"shared"} if shared else {"sum"} if adds else set()
    return Described(given, facts, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("loop", ("table", "picks"), trait="sum"),
        EXACT._replace(trait="shared sum"),
        Decision("rows", ("12", "64", "128", "256"), trait="shared"),
        Decision("rows", ("8", "20", "64"), without="shared"),
        Decision("lanes", ("128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
