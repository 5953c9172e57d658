"""Cross entropy: the mean or sum over rows of -log softmax at each row's class; rows with a negative class are left out."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.common_decisions import THREADS, VECTOR, row_team
from evokernel.generators.template_search.dialects.descriptions import describe_cross_entropy
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(row_team(), THREADS, VECTOR), describe=describe_cross_entropy)
