"""Resized images: positions computed per pixel, taken from tables, or rows interpolated first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, ORDER, SIMD, THREADS
from evokernel.generators.template_search.dialects.images import describe_resize
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("direct", "tables", "rows")),
        ORDER._replace(when=one_of("algorithm", "direct")),
        Decision("table", ("structs", "arrays"), one_of("algorithm", "tables", "rows")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe_resize,
)  # fmt: skip
