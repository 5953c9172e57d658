"""Rows of a table, selected by index."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import COMMON, ROWS
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, gather_operands, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the number of rows and their width."""
    table, rows = gather_operands(pattern)
    arguments = (
        StageArgument("table", table),
        StageArgument("numbers", rows),
        StageArgument("total", multiply_nums(rows.shape)),
        StageArgument("count", multiply_nums(table.shape[1:])),
    )
    return PatternDescription(arguments, {"step": 2 if rows.dtype == "int64" else 1}, frozenset({"rows"}))


template = KernelTemplate(
    decisions=(
        Decision("through", ("bind", "copy", "direct")),
        ROWS, *COMMON,
    ),
    describe=describe,
)  # fmt: skip
"""`through`: one queue from copy to copy, two queues with an instruction between, or a queue that only orders copies and instructions."""
