"""Argmax and argmin along an axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.axis_view import describe_axis
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
    has_explicit_vectors,
    is_multi_element,
    is_row_order,
)  # fmt: skip
from evokernel.generators.template_search.kernel_template import KernelTemplate


def has_vectors(choice: Choice) -> bool:
    """Whether explicit vectors are used."""
    return has_explicit_vectors(choice) or choice.get("algorithm") == "lanes"


def can_leave_remainder(choice: Choice) -> bool:
    """Whether a loop takes several elements at a time, so that a remainder is possible."""
    return is_multi_element(choice) or has_vectors(choice)


template = KernelTemplate(
    decisions=(
        ORDER,
        STRIP,
        Decision("algorithm", ("serial", "twopass", "blocks", "lanes"), is_row_order, excluded_by="strided"),
        SIMD._replace(when=one_of("algorithm", "twopass", "blocks"), excluded_by="strided"),
        SIMD._replace(options=("auto", "omp"), trait="strided"),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        LANES._replace(when=has_vectors),
        UNROLL._replace(excluded_by="strided"),
        TAIL._replace(when=can_leave_remainder, excluded_by="strided"),
        ALIAS,
        INDEX,
        THREADS,
    ),
    describe=describe_axis,
)
