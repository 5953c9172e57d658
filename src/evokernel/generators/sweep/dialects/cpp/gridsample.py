"""Images read at given points: weights per pixel for all channels, per channel anew, or from a table per image."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision
from evokernel.generators.sweep.dialects.cpp.parts import ALIAS, INDEX, SIMD, THREADS
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
    facts = {"mode": mode, "padding": padding, "corners": corners == "corners", "has_math": False}
    return Described((Given("x", x), Given("grid", grid), *(Given(*one) for one in sizes)), facts)


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("pixels", "channels", "tables")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
