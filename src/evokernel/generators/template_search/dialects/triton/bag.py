"""Embedding bags: the sum, mean or maximum of table rows, selected by index, for each row of the result."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.triton.gather import TILE
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes bags by their number, their length and the width of a row."""
    table, rows, *weights = pattern.tensors
    tensors = (StageArgument("table", table), StageArgument("index", rows), *(StageArgument("weights", w) for w in weights))
    sizes = (
        StageArgument("rows", rows.shape[0]),
        StageArgument("each", rows.shape[1]),
        StageArgument("cols", multiply_nums(table.shape[1:])),
    )
    return PatternDescription((*tensors, *sizes), {"kind": pattern.root.name, "weighted": bool(weights)})


template = KernelTemplate(decisions=TILE, describe=describe)
