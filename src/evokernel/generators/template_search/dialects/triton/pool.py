"""Pooling over one to three axes: every element of the output loops over its window."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.dialects.triton.epilogue import describe_epilogue
from evokernel.generators.template_search.dialects.triton.windows import WINDOW, window_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a pooling by its window, its kind and its epilogue."""
    (x,), main = pattern.tensors, pattern.main_nodes[0]
    if main.name not in ("max", "mean"):
        raise UnsupportedPattern(f"a pooling of kind {main.name}")
    rank = len(x.shape) - 2
    kinds = {kind: pattern.numbers[i * rank : (i + 1) * rank] for i, kind in enumerate("kspd")}
    arguments, variables = describe_epilogue(pattern, ("mm", "mm", "mm"))
    sizes = [StageArgument(f"n{i}", axis.extent) for i, axis in enumerate(pattern.axes)]
    sizes += window_arguments(kinds, x.shape[2:], main.shape[2:])
    variables = {**variables, "kind": main.name, "counts": main.name == "mean" and main.dims != (1,), "window": WINDOW}
    return PatternDescription((StageArgument("x", x), *arguments, *sizes), variables)


template = KernelTemplate(
    decisions=(Decision("loop", ("rolled", "unrolled")), BLOCK._replace(options=BLOCK.options[:4]), WARPS), describe=describe
)
