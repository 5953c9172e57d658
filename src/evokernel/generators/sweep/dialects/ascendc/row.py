"""Several reductions over the same loops, each of which may use those before, then one element per row or all of them."""

from __future__ import annotations

from evokernel.generators.sweep.dialects.ascendc.nests import nest
from evokernel.generators.sweep.dialects.ascendc.parts import ALGORITHM, COMMON, HOIST, KEEP, MATHS, PREFETCH, REDUCE, ROWS, SPLIT, STORE
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, KEEP, SPLIT, REDUCE, STORE, *COMMON, PREFETCH, *MATHS), describe=nest)
