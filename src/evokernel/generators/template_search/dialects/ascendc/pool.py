"""Pooling over one to three axes: the rows of a window onto each other, then its columns."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import BANKS, DEPTH, RELEASE, SHARE, STAGING, TAIL
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch, Num
from evokernel.generators.template_search.sketch import Described, Given, Sketch

AXES = ("d", "h", "w")


def describe(form: Form) -> Described:
    """The window, and how its elements are joined; absent leading axes have extent 1."""
    (x,), heavy = form.tensors, form.heavy[0]
    rank = len(x.shape) - 2
    if form.after is not None or x.dtype != "float32" or heavy.name not in ("max", "mean") or rank > len(AXES):
        raise NoSketch("a pooling before an expression, or of other than float32")
    kinds = {kind: form.numbers[i * rank : (i + 1) * rank] for i, kind in enumerate("kspd")}
    if heavy.name == "mean" and heavy.dims != (1,) and any(not n.is_literal or n.value for n in kinds["p"]):
        raise NoSketch("a mean that does not count the border")
    given = [Given("x0", x), Given("planes", product(x.shape[:2]))]
    one, zero = (Num.of(1),) * (len(AXES) - rank), (Num.of(0),) * (len(AXES) - rank)
    for kind, found in (("n", x.shape[2:]), ("o", form.root.shape[2:]), *kinds.items()):
        given += [Given(f"{kind}{axis}", n) for axis, n in zip(AXES, (*(zero if kind == "p" else one), *found))]
    is_max = heavy.name == "max"
    facts = {"is_max": is_max, "call": "Max" if is_max else "Add", "start": "-INF" if is_max else "0.0f"}
    return Described(tuple(given), facts)


sketch = Sketch(
    decisions=(Decision("across", ("scalar", "gather", "slices")), STAGING, DEPTH, RELEASE, TAIL, SHARE, BANKS), describe=describe
)
"""`across`: the columns of a window one by one, picked by their offsets, or as slices that begin at each column."""
