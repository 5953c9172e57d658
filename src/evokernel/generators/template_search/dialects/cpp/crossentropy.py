"""The mean or sum over rows of -log softmax at each row's class."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ORDER, ROW, is_by_rows
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Sizes, and whether the rows are averaged."""
    logits, classes = form.tensors
    if logits.dtype != "float32" or classes.dtype not in ("int64", "int32"):
        raise NoSketch(f"a cross entropy of {logits.dtype} with {classes.dtype} classes")
    rows, n = logits.shape
    given = (Given("x", logits), Given("y", classes), Given("rows", rows), Given("n", n))
    return Described(given, {"kind": form.heavy[0].name, "has_math": True}, frozenset({"math"}))


sketch = Sketch(
    decisions=(
        ORDER,
        Decision("algorithm", ("passes", "online"), is_by_rows),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online")),
        *ROW,
    ),
    describe=describe,
)
