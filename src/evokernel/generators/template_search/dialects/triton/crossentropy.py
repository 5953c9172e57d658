"""Cross entropy: the mean or sum over rows of -log softmax at each row's class; rows with a negative class are left out."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.descriptions import describe_cross_entropy
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("whole", "online")),
        Decision("rows", ("1", "2", "4", "8")),
        Decision("cols", ("256", "512", "1024", "2048", "4096"), lambda choice: choice["algorithm"] == "online"),
        WARPS,
    ),
    describe=describe_cross_entropy,
)
