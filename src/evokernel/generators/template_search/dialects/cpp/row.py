"""Several reductions over the same loops, each of which may use those before, then one element per row or all of them."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import NEST, ORDER, STRIP, is_by_rows
from evokernel.generators.template_search.dialects.cpp.loop_nests import nest
from evokernel.generators.template_search.sketch import Sketch


def is_in_passes(taken: Choice) -> bool:
    """Whether every reduction has a pass of its own."""
    return is_by_rows(taken) and taken.get("algorithm", "passes") == "passes"


sketch = Sketch(
    decisions=(
        ORDER._replace(without="whole"),
        STRIP,
        Decision("algorithm", ("passes", "online"), is_by_rows, trait="softmax"),
        Decision("algorithm", ("passes", "naive", "welford"), is_by_rows, trait="moments"),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online"), without="strided"),
        Decision("join", ("apart", "joined"), is_by_rows, trait="joint"),
        Decision("reuse", ("recompute", "store"), is_in_passes, trait="kept"),
        Decision("divide", ("exact", "reciprocal"), trait="divide"),
        *NEST,
    ),
    describe=nest,
)
