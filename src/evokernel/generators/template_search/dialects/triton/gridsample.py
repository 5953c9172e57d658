"""Grid sampling: every element of the output reads up to four pixels around its point."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.images import describe_grid_sample
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(BLOCK, WARPS), describe=describe_grid_sample)
