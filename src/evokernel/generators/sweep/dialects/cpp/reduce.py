"""One reduction with elementwise steps before and after it, over any of the loops."""

from __future__ import annotations

from evokernel.generators.sweep.dialects.cpp.nests import nest
from evokernel.generators.sweep.dialects.cpp.parts import NEST, ORDER, STRIP
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(decisions=(ORDER._replace(without="whole"), STRIP, *NEST), describe=nest)
