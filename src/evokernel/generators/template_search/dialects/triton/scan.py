"""Running sums and products along one axis: a block of rows walks along it in chunks."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.descriptions import describe_axis
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

AXIS_BLOCKS = (
    Decision("rows", ("1", "2", "4", "8", "16"), trait="inner"),
    Decision("rows", ("16", "32", "64", "128"), trait="strided"),
    Decision("cols", ("128", "256", "512", "1024", "2048", "4096"), trait="inner"),
    Decision("cols", ("4", "8", "16", "32"), trait="strided"),
    WARPS,
)
template = KernelTemplate(decisions=AXIS_BLOCKS, describe=describe_axis)
