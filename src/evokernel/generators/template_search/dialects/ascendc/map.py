"""Elementwise steps: all elements as one long row, or row by row if tensors are broadcast."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    ALGORITHM_LONG,
    COMMON,
    HOIST,
    MATHS,
    PREFETCH,
    ROWS,
)
from evokernel.generators.template_search.dialects.ascendc.loop_nests import describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(ALGORITHM, ALGORITHM_LONG, ROWS, HOIST, *COMMON, PREFETCH, *MATHS), describe=describe_nest)
