"""Elements picked along an axis: by comparing positions, row by row, or as a product with ones where positions agree."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import Node, NoSketch
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.sketch import Described, Given, Sketch, around


def describe(form: Form) -> Described:
    """Sizes before, along and after the axis."""
    x, places = form.tensors
    axis, shared = form.root.dims[0], form.root.name == SHARED
    facts = {"last": is_last(x, places, axis), "shared": shared}
    given = (Given("x", x), Given("at", places), *around(x.shape, form.root.shape, axis))
    return Described(given, facts, frozenset({"shared"} if shared else ()))


def is_last(x: Node, places: Node, axis: int) -> bool:
    """Whether nothing lies behind the axis; then it is turned towards sublanes."""
    if x.dtype != "float32" or places.dtype not in ("int64", "int32"):
        raise NoSketch(f"{x.dtype} elements at places given as {places.dtype}")
    return product(x.shape[axis + 1 :]).is_one


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("rows", "product"), trait="shared"),
        Decision("loop", ("table", "picks"), without="shared"),
        Decision("store", ("row", "tile"), one_of("algorithm", "rows")),
        EXACT._replace(when=one_of("algorithm", "product")),
        Decision("rows", ("12", "64", "128", "256")),
        Decision("lanes", ("128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
