"""Scatter: a copy of a tensor with elements at given positions replaced or incremented, in order, one thread per line of the axis."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a scatter by the sizes before, along and after the axis."""
    x, rows, source = pattern.tensors
    if x.dtype != source.dtype or x.dtype in ("bool", "float16", "bfloat16"):
        raise UnsupportedPattern(f"{source.dtype} elements scattered into {x.dtype} ones")
    tensors = (StageArgument("x", x), StageArgument("index", rows), StageArgument("source", source))
    variables = {"shared": pattern.root.name.startswith(SHARED), "adds": pattern.root.name.endswith("add")}
    return PatternDescription((*tensors, *axis_sizes(x.shape, source.shape, pattern.root.dims[0])), variables)


template = KernelTemplate(decisions=(BLOCK._replace(options=BLOCK.options[:4]), WARPS._replace(options=("1", "2", "4"))), describe=describe)
