"""Images read at given points: weights per pixel for all channels, per channel anew, or from a table per image."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, SIMD, THREADS
from evokernel.generators.template_search.dialects.images import sampled
from evokernel.generators.template_search.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("algorithm", ("pixels", "channels", "tables")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=sampled,
)  # fmt: skip
