"""Images read at given points: a product along columns, then a weighted sum along rows."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.images import sampled
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, PRECISION, SEMANTICS
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("lanes", ("100", "128", "256", "512")),
        Decision("loop", ("channels", "together")),
        PRECISION, SEMANTICS, LIMIT,
    ),
    describe=sampled,
)  # fmt: skip
