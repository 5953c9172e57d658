"""Convolutions over one to three axes, also grouped and transposed: as a matrix product without a copy of the input, or directly."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, PRECISION, STAGES, WARPS
from evokernel.generators.template_search.dialects.triton.epilogue import describe_epilogue
from evokernel.generators.template_search.dialects.triton.matmul import FACTORS, TILES
from evokernel.generators.template_search.dialects.triton.windows import WINDOW, window_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a convolution by its window, channels, groups and epilogue."""
    (x, w), main = pattern.tensors, pattern.main_nodes[0]
    if x.dtype not in FACTORS or w.dtype not in FACTORS:
        raise UnsupportedPattern(f"a convolution of {x.dtype} with {w.dtype}")
    rank = len(x.shape) - 2
    strides, paddings, dilations = (pattern.numbers[i * rank : (i + 1) * rank] for i in range(3))
    kinds = {"k": w.shape[2:], "s": strides, "p": paddings, "d": dilations}
    arguments, variables = describe_epilogue(pattern, ("mm", "nm", "mm"))
    sizes = [StageArgument(f"n{i}", axis.extent) for i, axis in enumerate(pattern.axes)]
    sizes += [StageArgument("ic", x.shape[1]), StageArgument("groups", pattern.numbers[-1])]
    sizes += window_arguments(kinds, x.shape[2:], main.shape[2:])
    variables = {**variables, "transposed": main.name == "transposed", "window": WINDOW}
    return PatternDescription((StageArgument("x", x), StageArgument("w", w), *arguments, *sizes), variables, frozenset({"float32"}))


def is_product(choice: Choice) -> bool:
    """Whether blocks are multiplied."""
    return choice.get("algorithm") != "direct"


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("direct", "taps", "flat")),
        *(tile._replace(when=is_product) for tile in TILES),
        PRECISION._replace(when=is_product), STAGES._replace(when=is_product),
        BLOCK._replace(options=BLOCK.options[:4], when=one_of("algorithm", "direct")), WARPS,
    ),
    describe=describe,
)  # fmt: skip
"""`taps` multiplies the channels at one position of the window at a time, `flat` all channels and positions as one sum."""
