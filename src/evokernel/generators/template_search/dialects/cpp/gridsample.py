"""Grid sampling: interpolation weights computed per pixel for all channels, per channel, or stored in a table per image."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, SIMD, THREADS
from evokernel.generators.template_search.dialects.images import describe_grid_sample
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("pixels", "channels", "tables")),
        SIMD._replace(options=("auto", "omp")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe_grid_sample,
)  # fmt: skip
