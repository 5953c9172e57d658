"""Rows of a table, selected by index."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.descriptions import describe_table_rows
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

TILE = (
    Decision("rows", ("1", "2", "4", "8", "16", "32")),
    Decision("cols", ("32", "64", "128", "256", "512", "1024")),
    WARPS,
)
"""The block of rows and columns of the output that a program writes."""
template = KernelTemplate(decisions=TILE, describe=describe_table_rows)
