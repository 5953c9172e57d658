"""Rows of a table, selected by index."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the number of rows and their width."""
    table, rows = pattern.tensors
    arguments = (
        StageArgument("table", table),
        StageArgument("index", rows),
        StageArgument("rows", multiply_nums(rows.shape)),
        StageArgument("cols", multiply_nums(table.shape[1:])),
        StageArgument("height", table.shape[0]),
    )
    return PatternDescription(arguments, {})


TILE = (
    Decision("rows", ("1", "2", "4", "8", "16", "32")),
    Decision("cols", ("32", "64", "128", "256", "512", "1024")),
    WARPS,
)
"""The block of rows and columns of the output that a program writes."""
template = KernelTemplate(decisions=TILE, describe=describe)
