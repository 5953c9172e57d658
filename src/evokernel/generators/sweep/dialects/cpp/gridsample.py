"""Images read at given points: weights per pixel for all channels, per channel anew, or from a table per image."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision
from evokernel.generators.sweep.dialects.cpp.parts import ALIAS, INDEX, SIMD, THREADS
from evokernel.generators.sweep.dialects.images import sampled
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("algorithm", ("pixels", "channels", "tables")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=sampled,
)  # fmt: skip
