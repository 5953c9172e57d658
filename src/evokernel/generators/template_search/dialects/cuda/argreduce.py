"""Argmax and argmin along an axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.common_decisions import TEAM_DECISIONS
from evokernel.generators.template_search.dialects.descriptions import describe_axis
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=TEAM_DECISIONS, describe=describe_axis)
