"""One reduction over any of the loops, with elementwise steps before and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    ALGORITHM_LONG,
    COMMON,
    HOIST,
    MATHS,
    PREFETCH,
    REDUCE,
    ROWS,
    SPLIT,
    STORE,
)
from evokernel.generators.template_search.dialects.ascendc.loop_nests import describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(ALGORITHM, ALGORITHM_LONG, ROWS, HOIST, SPLIT, REDUCE, STORE, *COMMON, PREFETCH, *MATHS), describe=describe_nest
)
