"""Images read at given points: a product along columns, then a weighted sum along rows."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision
from evokernel.generators.sweep.dialects.images import sampled
from evokernel.generators.sweep.dialects.pallas.parts import LIMIT, PRECISION, SEMANTICS
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("lanes", ("100", "128", "256", "512")),
        Decision("loop", ("channels", "together")),
        PRECISION, SEMANTICS, LIMIT,
    ),
    describe=sampled,
)  # fmt: skip
