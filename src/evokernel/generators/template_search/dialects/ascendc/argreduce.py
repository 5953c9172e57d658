"""Where along the last axis the largest or smallest element lies; of several equal ones, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.ascendc.common_decisions import ALGORITHM, COMMON, ROWS, extents, times
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """How many rows of which length."""
    last = len(form.axes) - 1
    if not form.axes or [i for i, a in enumerate(form.axes) if a.reduced] != [last]:
        raise NoSketch("the place of an extreme along any axis but the last")
    (x,) = form.tensors
    if x.dtype != "float32" or form.root.dtype not in ("int64", "int32"):
        raise NoSketch(f"the place of an extreme of {x.dtype}")
    is_max = form.heavy[0].name == "argmax"
    facts = {
        "rows": times(range(last)), "last": last, "call": "ReduceMax" if is_max else "ReduceMin", "sign": ">" if is_max else "<",
        "start": "-INF" if is_max else "INF", "step": 2 if form.root.dtype == "int64" else 1,
    }  # fmt: skip
    return Described((Given("x0", x), *extents(form.axes)), facts, frozenset({"rows"}))


sketch = Sketch(
    decisions=(
        ALGORITHM, ROWS,
        Decision("reduce", ("level", "scalar")),
        Decision("index", ("bits", "value"), one_of("reduce", "level")),
        *COMMON,
    ),
    describe=describe,
)  # fmt: skip
"""`index`: the place that a reduction found is read as the bits it is, or as if it were a number like the value."""
