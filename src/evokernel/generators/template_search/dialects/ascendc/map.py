"""Elementwise steps: everything as one long row, or row by row where tensors are stretched."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.ascendc.common_decisions import ALGORITHM, COMMON, HOIST, MATHS, PREFETCH, ROWS
from evokernel.generators.template_search.dialects.ascendc.loop_nests import nest
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(decisions=(ALGORITHM, ROWS, HOIST, *COMMON, PREFETCH, *MATHS), describe=nest)
