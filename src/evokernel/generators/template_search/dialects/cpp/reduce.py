"""One reduction over any of the loops, with elementwise steps before and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cpp.common_decisions import NEST_DECISIONS, ORDER, STRIP
from evokernel.generators.template_search.dialects.cpp.loop_nests import describe_nest
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(ORDER._replace(excluded_by="whole"), STRIP, *NEST_DECISIONS), describe=describe_nest)
