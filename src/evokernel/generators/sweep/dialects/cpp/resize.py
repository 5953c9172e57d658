"""Images of another size: positions pixel by pixel, from tables, or rows mixed first."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision, one_of
from evokernel.generators.sweep.dialects.cpp.parts import ALIAS, INDEX, ORDER, SIMD, THREADS
from evokernel.generators.sweep.forms import Form, product
from evokernel.generators.sweep.nodes import NoSketch
from evokernel.generators.sweep.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Old and new height and width, and how far apart new pixels are."""
    (x,) = form.tensors
    if x.dtype != "float32":
        raise NoSketch(f"resized {x.dtype} images")
    sizes = zip(("images", "h", "w", "height", "width"), (product(x.shape[:-2]), *x.shape[-2:], *form.root.shape[-2:]))
    steps = zip(("down", "across"), form.root.nums)
    given = (Given("x", x), *(Given(*one) for one in sizes), *(Given(*one) for one in steps))
    return Described(given, {"kind": form.root.name, "has_math": False})


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("direct", "tables", "rows")),
        ORDER._replace(when=one_of("algorithm", "direct")),
        Decision("table", ("structs", "arrays"), one_of("algorithm", "tables", "rows")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
