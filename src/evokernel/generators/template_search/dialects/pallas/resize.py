"""Resized images as two products with small matrices that the kernel computes from positions."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.images import describe_resize
from evokernel.generators.template_search.dialects.pallas.common_decisions import EDGE, EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        Decision("rows", ("1", "8", "12", "32")),
        Decision("order", ("across", "down")),
        Decision("loop", ("images", "batched")),
        EXACT, EDGE._replace(options=("clip", "pad")), SEMANTICS, LIMIT,
    ),
    describe=describe_resize,
)  # fmt: skip
