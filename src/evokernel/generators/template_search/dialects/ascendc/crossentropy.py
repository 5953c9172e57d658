"""The mean or sum over rows of -log softmax at each row's class."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import COMMON, REDUCE, ROWS_ALWAYS, SPLIT
from evokernel.generators.template_search.dialects.ascendc.emit import fold
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Sizes, and whether the rows are averaged."""
    logits, classes = form.tensors
    if logits.dtype != "float32" or classes.dtype not in ("int64", "int32"):
        raise NoSketch(f"a cross entropy of {logits.dtype} with {classes.dtype} classes")
    rows, n = logits.shape
    given = (Given("x0", logits), Given("classes", classes), Given("rows", rows), Given("count", n))
    facts = {"mean": form.heavy[0].name == "mean", "step": 2 if classes.dtype == "int64" else 1, "fold": fold, "partials": True}
    return Described(given, facts, frozenset({"rows", "single", "reduce"}))


sketch = Sketch(decisions=(SPLIT, Decision("shift", ("max", "none")), REDUCE, ROWS_ALWAYS, *COMMON), describe=describe)
"""`shift`: whether the largest of a row is taken away before the exponential."""
