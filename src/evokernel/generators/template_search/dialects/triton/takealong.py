"""Elements gathered along an axis, by an index tensor or by one index for all positions of the other axes."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the sizes before, along and after the axis."""
    x, rows = pattern.tensors
    arguments = (StageArgument("x", x), StageArgument("index", rows), *axis_sizes(x.shape, pattern.root.shape, pattern.root.dims[0]))
    return PatternDescription(arguments, {"shared": pattern.root.name == SHARED})


template = KernelTemplate(decisions=(BLOCK, WARPS), describe=describe)
