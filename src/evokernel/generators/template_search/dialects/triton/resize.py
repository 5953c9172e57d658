"""Resized images: every element of the output interpolates between its neighbours."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.images import describe_resize
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(BLOCK, WARPS), describe=describe_resize)
