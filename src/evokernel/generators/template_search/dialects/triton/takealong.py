"""Elements gathered along an axis, by an index tensor or by one index for all positions of the other axes."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.descriptions import describe_take_along
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(BLOCK, WARPS), describe=describe_take_along)
