"""Rows of a table, selected by index."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, gather_operands, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the number of rows and their width."""
    table, rows = gather_operands(pattern)
    arguments = (
        StageArgument("table", table),
        StageArgument("rows", rows),
        StageArgument("count", multiply_nums(rows.shape)),
        StageArgument("width", multiply_nums(table.shape[1:])),
    )
    return PatternDescription(arguments, {"has_math": False})


template = KernelTemplate(
    decisions=(
        ORDER,
        Decision("algorithm", ("memcpy", "loop"), one_of("order", "rows")),
        SIMD._replace(when=one_of("algorithm", "loop")),
        LANES,
        UNROLL._replace(when=one_of("simd", "vec")),
        TAIL._replace(options=("scalar", "overlap", "assume"), when=one_of("simd", "vec")),
        Decision("prefetch", ("none", "1", "4", "16"), one_of("order", "rows")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
