"""One reduction with elementwise steps before and after it, over any of the loops."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    COMMON,
    HOIST,
    MATHS,
    PREFETCH,
    REDUCE,
    ROWS,
    SPLIT,
    STORE,
)
from evokernel.generators.template_search.dialects.ascendc.loop_nests import nest
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, SPLIT, REDUCE, STORE, *COMMON, PREFETCH, *MATHS), describe=nest)
