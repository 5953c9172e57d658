"""Running sums and products along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import COMMON, ROWS_ALWAYS, extents, times
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """What lies before the axis, along it and behind it."""
    along = [i for i, a in enumerate(form.axes) if a.reduced]
    (x,) = form.tensors
    if len(along) != 1 or x.dtype != "float32" or form.heavy[0].name not in ("sum", "prod"):
        raise NoSketch("a running value over one element, several axes or other than float32")
    at, last = along[0], len(form.axes) - 1
    kind = form.heavy[0].name
    facts = {
        "outer": times(range(at)), "n": f"n{at}", "inside": times(range(at + 1, last + 1)), "strided": at != last,
        "start": "0.0f" if kind == "sum" else "1.0f", "sign": "+" if kind == "sum" else "*", "call": "Add" if kind == "sum" else "Mul",
    }  # fmt: skip
    return Described((Given("x0", x), *extents(form.axes)), facts, frozenset({"strided"} if at != last else {"rows"}))


sketch = Sketch(decisions=(Decision("algorithm", ("serial", "shift"), trait="rows"), ROWS_ALWAYS, *COMMON), describe=describe)
"""`algorithm`: element by element, or by adding the row to itself ever further shifted."""
