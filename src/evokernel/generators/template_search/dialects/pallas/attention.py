"""Attention, softmax(q k' * scale) v, in one kernel: whole rows of scores at once, or keys block by block with a running softmax."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, PRECISION, SEMANTICS, is_whole
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Queries, keys, values and the scale; all batch axes become one."""
    if any(x.dtype != "float32" for x in form.tensors):
        raise NoSketch("attention over other than float32 tensors")
    given = (*(Given(name, x) for name, x in zip(("q", "key", "value"), form.tensors)), Given("scale", form.numbers[0]))
    traits = ({"causal"} if form.causal else set()) | ({"batched"} if len(form.tensors[0].shape) > 2 else set())
    return Described(given, {"causal": form.causal}, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("whole", "turned", "chunks")),
        Decision("rows", ("32", "64", "100", "128", "256"), one_of("algorithm", "whole", "chunks")),
        Decision("rows", ("100", "128", "256", "512"), one_of("algorithm", "turned")),
        Decision("batch", ("1", "2", "4"), is_whole, trait="batched"),
        Decision("span", ("64", "128", "256"), one_of("algorithm", "chunks")),
        Decision("fill", ("pad", "mask", "none"), one_of("algorithm", "chunks")),
        Decision("skip", ("no", "yes"), one_of("algorithm", "chunks"), trait="causal"),
        Decision("divide", ("after", "before"), is_whole),
        Decision("divide", ("after", "reciprocal", "approx"), one_of("algorithm", "chunks")),
        PRECISION._replace(options=("highest", "default", "thirds")),
        PRECISION._replace(name="mixing", options=("highest", "split")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
