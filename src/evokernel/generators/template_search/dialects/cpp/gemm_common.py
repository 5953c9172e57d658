"""Decisions of templates that are built on a matrix product, and the elementwise steps on its result (the epilogue)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import SCRATCH, has_register_tile
from evokernel.generators.template_search.dialects.cpp.emit import emit_function
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import name_free_numbers, name_operands
from evokernel.generators.template_search.patterns import RESULT, KernelPattern


def is_packed(choice: Choice) -> bool:
    """Whether a factor is packed (copied into panels) first."""
    return choice.get("gemm") == "block" and choice.get("pack") in ("b", "ab")


GEMM = (
    Decision("gemm", ("dot", "axpy", "tiled", "block")),
    Decision("tile", ("16", "32", "64", "128"), one_of("gemm", "tiled")),
    Decision("mr", ("1", "2", "4", "6", "8", "12", "native"), has_register_tile),
    Decision("nr", ("1", "2", "3", "4"), lambda choice: has_register_tile(choice) and choice.get("mr") != "native"),
    Decision("pack", ("none", "b", "ab"), has_register_tile),
    Decision("ktile", ("0", "64", "256", "512"), has_register_tile),
    Decision("mtile", ("0", "48", "192"), one_of("pack", "ab")),
    Decision("copy", ("elements", "vectors"), is_packed),
    Decision("prefetch", ("none", "16", "64"), is_packed),
    Decision("fence", ("none", "2", "4"), has_register_tile),
)
"""How a product is computed.

The register tile has `mr` rows and `nr` vectors; `native` takes the tile that fills the registers of the machine.
`mtile` is the number of rows packed at a time, after all of the other factor was packed; `copy` and `prefetch` concern packing and reading
the packed panels. A `fence` after that many rows keeps the compiler from loading more rows at once.
"""
PANELS = Decision("scratch", (*SCRATCH, "kept"), is_packed)


@dataclass(frozen=True)
class Epilogue:
    """Elementwise steps after a product, as a function of the product and of other operands."""

    text: str
    operands: Mapping[Node, str]
    free: Mapping[Num, str]

    @property
    def extra(self) -> str:
        """The further number arguments of a call."""
        return "".join(f", {s}" for s in self.free.values())


def build_epilogue(pattern: KernelPattern) -> Epilogue:
    """The epilogue of a pattern; its text is empty if there is none."""
    steps = pattern.epilogue
    if steps is None:
        return Epilogue("", {}, {})
    if any(n.dtype != "float32" for n in (*pattern.tensors, pattern.root)):
        raise UnsupportedPattern("a product of other than float32")
    operands, free = name_operands(pattern.operands), name_free_numbers(steps)
    result = Node("leaf", (), pattern.main_nodes[0].shape, RESULT, dtype=pattern.main_nodes[0].dtype)
    return Epilogue(emit_function("after", steps, {result: "dest", **operands}, free), operands, free)
