"""Argmax and argmin along an axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.descriptions import describe_axis
from evokernel.generators.template_search.dialects.triton.scan import AXIS_BLOCKS
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=AXIS_BLOCKS, describe=describe_axis)
