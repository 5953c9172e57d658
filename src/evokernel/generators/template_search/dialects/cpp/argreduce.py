"""Where along an axis the largest or smallest element lies; of several equal ones, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.axis_view import line
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ALIAS,
    INDEX,
    LANES,
    ORDER,
    SIMD,
    STRIP,
    TAIL,
    THREADS,
    UNROLL,
    is_by_rows,
    is_stepped,
    is_wide,
)  # fmt: skip
from evokernel.generators.template_search.sketch import Sketch


def has_lanes(taken: Choice) -> bool:
    """Whether explicit vectors are used."""
    return is_wide(taken) or taken.get("algorithm") == "lanes"


def leaves_some(taken: Choice) -> bool:
    """Whether a number of elements is taken at a time, so that some may remain."""
    return is_stepped(taken) or has_lanes(taken)


sketch = Sketch(
    decisions=(
        ORDER,
        STRIP,
        Decision("algorithm", ("serial", "twopass", "blocks", "lanes"), is_by_rows, without="strided"),
        SIMD._replace(when=one_of("algorithm", "twopass", "blocks"), without="strided"),
        SIMD._replace(options=("auto", "omp"), trait="strided"),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        LANES._replace(when=has_lanes),
        UNROLL._replace(without="strided"),
        TAIL._replace(when=leaves_some, without="strided"),
        ALIAS,
        INDEX,
        THREADS,
    ),
    describe=line,
)
