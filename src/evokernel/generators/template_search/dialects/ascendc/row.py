"""Several reductions over the same loops, each of which may use earlier ones; the result has one element per row or all elements."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    ALGORITHM_LONG,
    ALGORITHM_TOGETHER,
    HOIST,
    KEEP,
    MATHS,
    PREFETCH,
    REDUCE,
    ROW_COMMON,
    ROWS,
    SPLIT,
    STORE,
    TILES,
    unless_together,
)
from evokernel.generators.template_search.dialects.ascendc.loop_nests import describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        ALGORITHM, ALGORITHM_TOGETHER, ALGORITHM_LONG, TILES, ROWS, HOIST, KEEP, SPLIT, *unless_together(REDUCE, STORE),
        *ROW_COMMON, PREFETCH, *MATHS,
    ),
    describe=describe_nest,
)  # fmt: skip
