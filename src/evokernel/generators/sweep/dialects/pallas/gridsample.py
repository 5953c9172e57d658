"""Images read at given points: a product along columns, then a weighted sum along rows."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision
from evokernel.generators.sweep.dialects.pallas.parts import LIMIT, PRECISION, SEMANTICS
from evokernel.generators.sweep.forms import Form, product
from evokernel.generators.sweep.nodes import NoSketch
from evokernel.generators.sweep.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Images, channels, old height and width, and the number of points."""
    x, grid = form.tensors
    if any(t.dtype != "float32" for t in form.tensors):
        raise NoSketch(f"{x.dtype} images at {grid.dtype} points")
    mode, padding, corners = form.root.name.split()
    sizes = zip(("images", "channels", "h", "w", "points"), (*x.shape, product(form.root.shape[2:])))
    facts = {"mode": mode, "padding": padding, "corners": corners == "corners"}
    return Described((Given("x", x), Given("grid", grid), *(Given(*one) for one in sizes)), facts)


sketch = Sketch(
    decisions=(
        Decision("lanes", ("100", "128", "256", "512")),
        Decision("loop", ("channels", "together")),
        PRECISION, SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
