"""Running sums and products along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.axis_view import line
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ACC,
    ALIAS,
    INDEX,
    LANES,
    ORDER,
    SIMD,
    TAIL,
    THREADS,
    UNROLL,
    is_wide,
)
from evokernel.generators.template_search.sketch import Sketch


def has_vectors(taken: Choice) -> bool:
    """Whether explicit vectors are used, along the axis or across it."""
    return is_wide(taken) or taken.get("algorithm") == "shift"


def is_several(taken: Choice) -> bool:
    """Whether a number of rows or elements is taken at a time."""
    return taken.get("algorithm") == "rows" or taken.get("simd") in ("auto", "vec")


sketch = Sketch(
    decisions=(
        ORDER,
        Decision("algorithm", ("serial", "rows", "shift", "blocks"), one_of("order", "rows"), without="strided"),
        SIMD._replace(trait="strided"),
        LANES._replace(when=has_vectors),
        UNROLL._replace(when=is_several),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        TAIL._replace(options=("scalar", "assume"), when=one_of("algorithm", "rows", "shift", "blocks"), trait="inner"),
        TAIL._replace(trait="strided"),
        ACC._replace(without="strided"),
        ALIAS,
        INDEX,
        THREADS,
    ),
    describe=line,
)
