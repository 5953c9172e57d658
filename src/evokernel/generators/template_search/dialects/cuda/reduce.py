"""One reduction over any of the loops, with elementwise steps before and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.nests import NEST_DECISIONS, describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=NEST_DECISIONS, describe=describe_nest)
