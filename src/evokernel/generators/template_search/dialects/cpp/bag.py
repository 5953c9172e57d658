"""Embedding bags: the sum, mean or maximum of table rows, selected by index, for each row of the result."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes bags by their number, their length and the width of a row."""
    table, rows, *weights = pattern.tensors
    if any(t.dtype != "float32" for t in (table, *weights)) or rows.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"bags of {table.dtype} rows by {rows.dtype} numbers")
    tensors = (StageArgument("table", table), StageArgument("rows", rows), *(StageArgument("weights", w) for w in weights))
    sizes = (
        StageArgument("bags", rows.shape[0]),
        StageArgument("each", rows.shape[1]),
        StageArgument("width", multiply_nums(table.shape[1:])),
    )
    return PatternDescription((*tensors, *sizes), {"kind": pattern.root.name, "weighted": bool(weights)})


def is_loop_explicit(choice: Choice) -> bool:
    """Whether the template writes the inner loop itself."""
    return choice["order"] == "rows" and choice["simd"] != "omp"


template = KernelTemplate(
    decisions=(
        ORDER,
        SIMD, LANES, UNROLL._replace(when=is_loop_explicit),
        Decision("hold", ("memory", "registers"), lambda choice: choice.get("simd") == "vec"),
        TAIL._replace(options=("scalar", "assume")),
        Decision("prefetch", ("none", "1", "4", "16"), lambda choice: choice["order"] == "rows"),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
