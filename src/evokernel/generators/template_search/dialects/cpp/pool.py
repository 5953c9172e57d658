"""Pooling over one to three axes: window by window, along one axis after the other, or on a copy with its border."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, LANES, MATH, SCRATCH, SIMD, TAIL, THREADS, is_wide
from evokernel.generators.template_search.dialects.cpp.windows import BORDER, FUSION, WINDOW, epilogue, window
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """The window, how its elements are joined, and what follows."""
    (x,), heavy = form.tensors, form.heavy[0]
    if x.dtype != "float32" or heavy.name not in ("max", "mean"):
        raise NoSketch(f"a pooling of kind {heavy.name} over {x.dtype}")
    rank = len(x.shape) - 2
    kinds = {kind: form.numbers[i * rank : (i + 1) * rank] for i, kind in enumerate("kspd")}
    numbers, facts, traits = window(kinds, x.shape[2:])
    more, after, follows = epilogue(form)
    facts = {**facts, **after, "kind": heavy.name, "counts": heavy.name == "mean" and heavy.dims != (1,)}
    given = (Given("x", x), Given("images", x.shape[0]), Given("channels", x.shape[1]), *numbers, *more)
    return Described(given, facts, frozenset(traits | follows))


def is_copied(taken: Choice) -> bool:
    """Whether there is memory between input and output."""
    return taken.get("algorithm") in ("separable", "padded")


def is_looped(taken: Choice) -> bool:
    """Whether whole rows are joined."""
    return taken.get("algorithm") == "separable" or taken.get("order") == "taps"


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("direct", "separable", "padded")),
        BORDER._replace(when=one_of("algorithm", "direct", "padded")),
        BORDER._replace(options=("clip", "assume"), when=one_of("algorithm", "separable")),
        WINDOW,
        Decision("order", ("taps", "windows"), is_copied),
        SIMD._replace(when=is_looped, without="epilogue"),
        SIMD._replace(when=lambda taken: True, trait="epilogue"),
        LANES, TAIL._replace(when=is_wide),
        Decision("scratch", SCRATCH, is_copied),
        FUSION._replace(options=("pass", "image", "row")),
        MATH, ALIAS, THREADS,
    ),
    describe=describe,
)  # fmt: skip
