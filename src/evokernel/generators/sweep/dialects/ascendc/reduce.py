"""One reduction with elementwise steps before and after it, over any of the loops."""

from __future__ import annotations

from evokernel.generators.sweep.dialects.ascendc.nests import nest
from evokernel.generators.sweep.dialects.ascendc.parts import ALGORITHM, COMMON, HOIST, MATHS, PREFETCH, REDUCE, ROWS, SPLIT, STORE
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, SPLIT, REDUCE, STORE, *COMMON, PREFETCH, *MATHS), describe=nest)
