"""The maximum or mean of windows over one to three axes, by shifts of a flat image or by taps stacked before the kernel."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, SEMANTICS, STRIP
from evokernel.generators.template_search.dialects.pallas.windows import settings, tuples
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """The image, the windows, and what is divided by."""
    (heavy,), (x,) = form.heavy, form.tensors
    if form.after is not None:
        raise NoSketch("steps after a pooling")
    if x.dtype != "float32":
        raise NoSketch(f"a pooling of {x.dtype}")
    rank = len(heavy.nums) // 4
    texts, asked = settings(heavy.nums)
    window, strides, paddings, dilations = tuples(texts, rank)
    padded = any(not n.is_literal or n.value != 0 for n in heavy.nums[2 * rank : 3 * rank])
    facts = {
        "rank": rank, "window": window, "strides": strides, "paddings": paddings, "dilations": dilations, "kind": heavy.name,
        "counts": heavy.name == "mean" and heavy.dims != (1,) and padded, "by_one": all(n.is_one for n in heavy.nums[rank : 2 * rank]),
    }  # fmt: skip
    traits = {heavy.name, *(["border"] if heavy.name == "max" and padded else [])}
    return Described((Given("x", x), *asked), facts, frozenset(traits))


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("shifts", "lanes", "stacked")),
        Decision("border", ("low", "infinite", "zero"), trait="border"),
        Decision("images", ("1", "8", "16", "64"), one_of("algorithm", "shifts")),
        Decision("lanes", ("100", "128", "512"), one_of("algorithm", "lanes")),
        STRIP._replace(when=one_of("algorithm", "lanes")),
        Decision("fold", ("taps", "axes"), one_of("algorithm", "shifts", "lanes")),
        Decision("width", ("128", "512", "1024"), one_of("algorithm", "stacked")),
        Decision("rows", ("8", "12", "32", "128"), one_of("algorithm", "stacked")),
        Decision("stack", ("together", "apart"), one_of("algorithm", "stacked")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
