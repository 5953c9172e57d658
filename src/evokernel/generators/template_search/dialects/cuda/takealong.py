"""Elements gathered along an axis, by an index tensor or by one index for all positions of the other axes."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.common_decisions import THREADS
from evokernel.generators.template_search.dialects.descriptions import describe_take_along
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(THREADS,), describe=describe_take_along)
