"""Images of another size as two products with small matrices, made from positions inside the kernel."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.images import resized
from evokernel.generators.template_search.dialects.pallas.common_decisions import EDGE, EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("rows", ("1", "8", "12", "32")),
        Decision("order", ("across", "down")),
        Decision("loop", ("images", "batched")),
        EXACT, EDGE._replace(options=("clip", "pad")), SEMANTICS, LIMIT,
    ),
    describe=resized,
)  # fmt: skip
