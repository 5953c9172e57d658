"""Images of another size: positions pixel by pixel, from tables, or rows mixed first."""

from __future__ import annotations

from evokernel.generators.sweep.decisions import Decision, one_of
from evokernel.generators.sweep.dialects.cpp.parts import ALIAS, INDEX, ORDER, SIMD, THREADS
from evokernel.generators.sweep.dialects.images import resized
from evokernel.generators.sweep.sketch import Sketch

sketch = Sketch(
    decisions=(
        Decision("algorithm", ("direct", "tables", "rows")),
        ORDER._replace(when=one_of("algorithm", "direct")),
        Decision("table", ("structs", "arrays"), one_of("algorithm", "tables", "rows")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=resized,
)  # fmt: skip
