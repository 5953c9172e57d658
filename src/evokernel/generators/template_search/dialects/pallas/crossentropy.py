"""Cross entropy of logits and classes: each row's loss and their sum in one pass."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import IN_LANES, LIMIT, ROWS, SEMANTICS, TURN, is_turned
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Logits, classes and how the losses are joined."""
    logits, classes = form.tensors
    if logits.dtype != "float32" or not classes.dtype.startswith("int"):
        raise NoSketch(f"a cross entropy of {logits.dtype} logits and {classes.dtype} classes")
    return Described((Given("x", logits), Given("target", classes)), {"kind": form.heavy[0].name})


sketch = Sketch(
    decisions=(
        TURN,
        ROWS._replace(when=lambda taken: not is_turned(taken)),
        IN_LANES._replace(when=is_turned),
        Decision("pick", ("select", "product")),
        Decision("edge", ("mask", "pad", "none")),
        Decision("sums", ("inside", "outside")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
