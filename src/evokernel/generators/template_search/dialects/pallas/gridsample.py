"""Grid sampling: a product along columns, then a weighted sum along rows."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.images import describe_grid_sample
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, PRECISION, SEMANTICS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        Decision("lanes", ("100", "128", "256", "512")),
        Decision("loop", ("channels", "together")),
        PRECISION, SEMANTICS, LIMIT,
    ),
    describe=describe_grid_sample,
)  # fmt: skip
