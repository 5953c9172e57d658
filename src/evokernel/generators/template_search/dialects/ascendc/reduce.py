"""One reduction over any of the loops, with elementwise steps before and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    ALGORITHM_LONG,
    ALGORITHM_TOGETHER,
    HOIST,
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
        ALGORITHM, ALGORITHM_TOGETHER, ALGORITHM_LONG, TILES, ROWS, HOIST, SPLIT, *unless_together(REDUCE, STORE), *ROW_COMMON, PREFETCH,
        *MATHS,
    ),
    describe=describe_nest,
)  # fmt: skip
