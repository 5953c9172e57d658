"""Images of another size as two products with small matrices, made from positions inside the kernel."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision
from evokernel.generators.sweep.dialects.pallas.parts import EDGE, EXACT, LIMIT, SEMANTICS
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
    return Described(given, {"kind": form.root.name})


sketch = Sketch(
    decisions=(
        Decision("rows", ("1", "8", "12", "32")),
        Decision("order", ("across", "down")),
        Decision("loop", ("images", "batched")),
        EXACT, EDGE._replace(options=("clip", "pad")), SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
