"""How dialects see operators on images whose pixels are read between the lines: resizing, and reading at given points."""

from __future__ import annotations

from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given


def resized(form: Form) -> Described:
    """Old and new height and width, and how far apart new pixels are."""
    (x,) = form.tensors
    if x.dtype != "float32":
        raise NoSketch(f"resized {x.dtype} images")
    sizes = zip(("images", "h", "w", "height", "width"), (product(x.shape[:-2]), *x.shape[-2:], *form.root.shape[-2:]))
    steps = zip(("down", "across"), form.root.nums)
    return Described((Given("x", x), *(Given(*one) for one in sizes), *(Given(*one) for one in steps)), {"kind": form.root.name})


def sampled(form: Form) -> Described:
    """Images, channels, old height and width, and the number of points."""
    x, grid = form.tensors
    if any(t.dtype != "float32" for t in form.tensors):
        raise NoSketch(f"{x.dtype} images at {grid.dtype} points")
    mode, padding, corners = form.root.name.split()
    sizes = zip(("images", "channels", "h", "w", "points"), (*x.shape, product(form.root.shape[2:])))
    facts = {"mode": mode, "padding": padding, "corners": corners == "corners"}
    return Described((Given("x", x), Given("grid", grid), *(Given(*one) for one in sizes)), facts)
