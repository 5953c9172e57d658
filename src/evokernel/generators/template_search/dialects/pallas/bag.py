"""Embedding bags: sums and means of table rows as a product with weights per row; maxima row by row."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes bags by their number, their length and the width of a row."""
    table, places, *weights = pattern.tensors
    if any(t.dtype != "float32" for t in (table, *weights)) or places.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"bags of {table.dtype} rows by {places.dtype} numbers")
    tensors = (StageArgument("table", table), StageArgument("at", places), *(StageArgument("weights", w) for w in weights))
    sizes = (
        StageArgument("bags", places.shape[0]),
        StageArgument("each", places.shape[1]),
        StageArgument("width", multiply_nums(table.shape[1:])),
    )
    traits = {"sums"} if pattern.root.name != "max" else set()
    return PatternDescription((*tensors, *sizes), {"kind": pattern.root.name, "weighted": bool(weights)}, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("loop", ("unrolled", "rolled"), excluded_by="sums"),
        Decision("chunk", ("512", "1024", "2048"), trait="sums"),
        EXACT._replace(trait="sums"),
        Decision("rows", ("12", "64", "128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
