"""softmax(q k' * scale) v: all scores at once, some rows of them, or row by row and span by span with a running maximum."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, LANES, MATH, SCRATCH, SIMD, TAIL, UNROLL
from evokernel.generators.template_search.dialects.cpp.products import GEMM
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """Sizes and the scale."""
    q, key, value = form.tensors
    if any(x.dtype != "float32" for x in (*form.tensors, form.root)):
        raise NoSketch("attention in other than float32")
    sizes = {"batch": product(q.shape[:-2]), "M": q.shape[-2], "N": key.shape[-2], "D": q.shape[-1], "E": value.shape[-1]}
    given = (Given("q", q), Given("key", key), Given("value", value), *(Given(name, size) for name, size in sizes.items()))
    traits = {"math", "causal"} if form.causal else {"math"}
    return Described((*given, Given("scale", form.numbers[0])), {"causal": form.causal, "has_math": True}, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("full", "rows", "online")),
        Decision("rows", ("1", "8", "32", "64"), one_of("algorithm", "rows", "online")),
        Decision("span", ("16", "64", "128"), one_of("algorithm", "online")),
        Decision("ahead", ("masked", "skipped"), trait="causal"),
        *GEMM, SIMD, LANES, UNROLL, TAIL, Decision("scratch", (*SCRATCH, "kept")), MATH, ALIAS,
    ),
    describe=describe,
)  # fmt: skip
