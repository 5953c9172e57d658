"""Convolutions over one to three axes, grouped and transposed ones too: tap by tap, as one product, or with a register tile."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ACC,
    ALIAS,
    LANES,
    MATH,
    SCRATCH,
    SIMD,
    TAIL,
    THREADS,
    is_blocked,
    is_wide,
)
from evokernel.generators.template_search.dialects.cpp.windows import BORDER, FUSION, ONE, WINDOW, epilogue, window
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import NoSketch
from evokernel.generators.template_search.sketch import Described, Given, Sketch


def describe(form: Form) -> Described:
    """The window, channels and groups, and what follows."""
    (x, w), heavy = form.tensors, form.heavy[0]
    if x.dtype != "float32" or w.dtype != "float32":
        raise NoSketch(f"a convolution of {x.dtype} with {w.dtype}")
    rank, transposed = len(x.shape) - 2, heavy.name == "transposed"
    strides, paddings, dilations, extra = (form.numbers[i * rank : (i + 1) * rank] for i in range(4))
    kinds = {"k": w.shape[2:], "s": strides, "p": paddings, "d": dilations, "e": extra}
    inputs = x.shape[2:]
    is_literal = all(n.is_literal for found in kinds.values() for n in found)
    is_point = is_literal and all(n.value == 1 for n in (*w.shape[2:], *strides)) and all(n.value == 0 for n in (*paddings, *extra))
    if is_point:  # all points are one row
        kinds = {kind: (ONE if kind in "ksd" else paddings[0],) for kind in kinds}
        inputs = (product(inputs),)
    numbers, facts, traits = window(kinds, inputs)
    given = [Given("x", x), Given("w", w), Given("images", x.shape[0]), Given("ic", x.shape[1]), Given("oc", heavy.shape[1])]
    given += [Given("groups", form.numbers[-1]), *numbers]
    more, after, follows = epilogue(form)
    traits |= follows | {"transposed" if transposed and not is_point else "plain"} | ({"point"} if is_point else set())
    if "epilogue" in traits:
        traits.add("after transposed" if transposed else "after plain")
    if transposed and not is_point:
        traits.add("padded")
    facts = {**facts, **after, "is_transposed": transposed and not is_point, "flipped": transposed, "is_point": is_point}
    return Described((*given, *more), facts, frozenset(traits))


def is_multiplied(taken: Choice) -> bool:
    """Whether the work is left to a product of matrices."""
    return taken.get("algorithm") == "im2col"


def is_plain(taken: Choice) -> bool:
    """Whether loops over single elements remain that can be vectorised."""
    return taken.get("algorithm") == "shift" or (is_multiplied(taken) and taken.get("gemm") != "block")


def is_copied(taken: Choice) -> bool:
    """Whether the input is rearranged first."""
    return taken.get("algorithm") in ("im2col", "block")


sketch = Sketch(
    decisions=(
        Decision("algorithm", ("direct", "shift", "im2col", "block")),
        Decision("gemm", ("axpy", "tiled", "block"), is_multiplied),
        Decision("tile", ("16", "32", "64", "128"), one_of("gemm", "tiled")),
        Decision("span", ("all", "1", "8"), is_multiplied, without="point"),
        Decision("mr", ("1", "2", "4", "6", "8"), is_blocked),
        Decision("nr", ("1", "2", "3", "4"), is_blocked),
        Decision("pack", ("none", "w"), is_blocked),
        Decision("order", ("channels", "rows", "pieces"), one_of("algorithm", "block")),
        Decision("skew", ("none", "odd"), one_of("algorithm", "block")),
        SIMD._replace(when=is_plain, without="epilogue"),
        SIMD._replace(when=lambda taken: True, trait="epilogue"),
        LANES,
        TAIL._replace(when=is_wide),
        TAIL._replace(options=("scalar", "assume"), when=lambda taken: taken.get("gemm") == "tiled" and not is_wide(taken)),
        Decision("scratch", SCRATCH, is_copied, without="point"),
        Decision("scratch", SCRATCH, one_of("algorithm", "block"), trait="point"),
        BORDER,
        FUSION._replace(trait="after transposed"),
        FUSION._replace(options=("pass", "image", "row"), trait="after plain"),
        WINDOW, ACC._replace(when=one_of("algorithm", "direct")), MATH, ALIAS, THREADS,
    ),
    describe=describe,
)  # fmt: skip
