"""One reduction with elementwise steps before and after it, over any of the loops."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cpp.common_decisions import NEST, ORDER, STRIP
from evokernel.generators.template_search.dialects.cpp.loop_nests import nest
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(decisions=(ORDER._replace(without="whole"), STRIP, *NEST), describe=nest)
