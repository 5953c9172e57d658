"""Running sums and products along an axis: a team of threads walks along it, or each of its threads takes a segment of it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.common_decisions import TEAM_DECISIONS
from evokernel.generators.template_search.dialects.descriptions import describe_axis
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=TEAM_DECISIONS, describe=describe_axis)
