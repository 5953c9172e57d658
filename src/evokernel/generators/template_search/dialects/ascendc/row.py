"""Several reductions over the same loops, each of which may use those before, then one element per row or all of them."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    COMMON,
    HOIST,
    KEEP,
    MATHS,
    PREFETCH,
    REDUCE,
    ROWS,
    SPLIT,
    STORE,
)
from evokernel.generators.template_search.dialects.ascendc.loop_nests import nest
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, KEEP, SPLIT, REDUCE, STORE, *COMMON, PREFETCH, *MATHS), describe=nest)
