"""Running sums and products along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.axis_view import describe_axis
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
    has_explicit_vectors,
)
from evokernel.generators.template_search.kernel_template import KernelTemplate


def has_vectors(choice: Choice) -> bool:
    """Whether explicit vectors are used, along the axis or across it."""
    return has_explicit_vectors(choice) or choice.get("algorithm") == "shift"


def has_several_rows(choice: Choice) -> bool:
    """Whether several rows or elements are taken at a time."""
    return choice.get("algorithm") == "rows" or choice.get("simd") in ("auto", "vec")


template = KernelTemplate(
    decisions=(
        ORDER,
        Decision("algorithm", ("serial", "rows", "shift", "blocks"), one_of("order", "rows"), excluded_by="strided"),
        SIMD._replace(trait="strided"),
        LANES._replace(when=has_vectors),
        UNROLL._replace(when=has_several_rows),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        TAIL._replace(options=("scalar", "assume"), when=one_of("algorithm", "rows", "shift", "blocks"), trait="inner"),
        TAIL._replace(trait="strided"),
        ACC._replace(excluded_by="strided"),
        ALIAS,
        INDEX,
        THREADS,
    ),
    describe=describe_axis,
)
