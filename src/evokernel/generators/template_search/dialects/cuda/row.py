"""Several reductions over the same loops, each of which may use earlier ones, or a result as large as the iteration space."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.nests import NEST_DECISIONS, describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=NEST_DECISIONS, describe=describe_nest)
