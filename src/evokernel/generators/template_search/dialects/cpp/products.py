"""What sketches built on a matrix product share: its decisions, and the elementwise steps done in place on its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import SCRATCH, is_blocked
from evokernel.generators.template_search.dialects.cpp.emit import function
from evokernel.generators.template_search.forms import RESULT, Form
from evokernel.generators.template_search.graph import Node, NoSketch, Num
from evokernel.generators.template_search.sketch import free_numbers, named


def is_packed(taken: Choice) -> bool:
    """Whether a factor is copied before it is used."""
    return taken.get("gemm") == "block" and taken.get("pack") in ("b", "ab")


GEMM = (
    Decision("gemm", ("dot", "axpy", "tiled", "block")),
    Decision("tile", ("16", "32", "64", "128"), one_of("gemm", "tiled")),
    Decision("mr", ("1", "2", "4", "6", "8", "12"), is_blocked),
    Decision("nr", ("1", "2", "3", "4"), is_blocked),
    Decision("pack", ("none", "b", "ab"), is_blocked),
    Decision("ktile", ("0", "64", "256", "512"), is_blocked),
    Decision("mtile", ("0", "48", "192"), one_of("pack", "ab")),
    Decision("copy", ("elements", "vectors"), is_packed),
    Decision("prefetch", ("none", "16", "64"), is_packed),
    Decision("fence", ("none", "2", "4"), is_blocked),
)
"""How a product is computed.

With `mtile` so many rows are packed at a time, and before them all of the other factor; `copy` and `prefetch` are about packing
and reading what was packed. A `fence` after so many rows keeps the compiler
from loading more of them at once.
"""
PANELS = Decision("scratch", (*SCRATCH, "kept"), is_packed)


@dataclass(frozen=True)
class Epilogue:
    """Elementwise steps after a product, as a function of its result and what else they read."""

    text: str
    operands: Mapping[Node, str]
    free: Mapping[Num, str]

    @property
    def extra(self) -> str:
        """The numbers at a call."""
        return "".join(f", {s}" for s in self.free.values())


def epilogue(form: Form) -> Epilogue:
    """The steps after the heavy one; without text where there are none."""
    tree = form.after
    if tree is None:
        return Epilogue("", {}, {})
    if any(n.dtype != "float32" for n in (*form.tensors, form.root)):
        raise NoSketch("a product of other than float32")
    operands, free = named(form.operands), free_numbers(tree)
    result = Node("leaf", (), form.heavy[0].shape, RESULT, dtype=form.heavy[0].dtype)
    return Epilogue(function("after", tree, {result: "dest", **operands}, free), operands, free)
