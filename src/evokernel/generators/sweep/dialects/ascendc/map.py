"""Elementwise steps: everything as one long row, or row by row where tensors are stretched."""

from __future__ import annotations

from evokernel.generators.sweep.dialects.ascendc.nests import nest
from evokernel.generators.sweep.dialects.ascendc.parts import ALGORITHM, COMMON, HOIST, MATHS, PREFETCH, ROWS
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, *COMMON, PREFETCH, *MATHS), describe=nest)
