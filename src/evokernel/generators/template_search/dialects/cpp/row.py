"""Several reductions over the same loops, each of which may use earlier ones; the result has one element per row or all elements."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import NEST_DECISIONS, ORDER, STRIP, is_row_order
from evokernel.generators.template_search.dialects.cpp.loop_nests import describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate


def has_separate_passes(choice: Choice) -> bool:
    """Whether every reduction has a separate pass."""
    return is_row_order(choice) and choice.get("algorithm", "passes") == "passes"


template = KernelTemplate(
    decisions=(
        ORDER._replace(excluded_by="whole"),
        STRIP,
        Decision("algorithm", ("passes", "online"), is_row_order, trait="softmax"),
        Decision("algorithm", ("passes", "naive", "welford"), is_row_order, trait="moments"),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online"), excluded_by="strided"),
        Decision("join", ("apart", "joined"), is_row_order, trait="joint"),
        Decision("reuse", ("recompute", "store"), has_separate_passes, trait="kept"),
        Decision("divide", ("exact", "reciprocal"), trait="divide"),
        *NEST_DECISIONS,
    ),
    describe=describe_nest,
)
