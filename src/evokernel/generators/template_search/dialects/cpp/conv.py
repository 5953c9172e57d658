"""Convolutions over one to three axes, also grouped and transposed: tap by tap, as a matrix product (im2col), or with a register tile."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ACC,
    ALIAS,
    LANES,
    MATH,
    SCRATCH,
    SIMD,
    TAIL,
    THREADS,
    has_explicit_vectors,
    has_register_tile,
)
from evokernel.generators.template_search.dialects.cpp.windows import BORDER, FUSION, ONE, WINDOW, epilogue_variables, window_variables
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a convolution by its window, channels, groups and epilogue."""
    (x, w), main = pattern.tensors, pattern.main_nodes[0]
    if x.dtype != "float32" or w.dtype != "float32":
        raise UnsupportedPattern(f"a convolution of {x.dtype} with {w.dtype}")
    rank, is_transposed = len(x.shape) - 2, main.name == "transposed"
    strides, paddings, dilations, extra = (pattern.numbers[i * rank : (i + 1) * rank] for i in range(4))
    kinds = {"k": w.shape[2:], "s": strides, "p": paddings, "d": dilations, "e": extra}
    inputs = x.shape[2:]
    is_literal = all(n.is_literal for nums in kinds.values() for n in nums)
    is_point = is_literal and all(n.value == 1 for n in (*w.shape[2:], *strides)) and all(n.value == 0 for n in (*paddings, *extra))
    if is_point:  # a 1x1 convolution: all points are one row
        kinds = {kind: (ONE if kind in "ksd" else paddings[0],) for kind in kinds}
        inputs = (multiply_nums(inputs),)
    window_arguments, variables, traits = window_variables(kinds, inputs)
    arguments = [
        StageArgument("x", x),
        StageArgument("w", w),
        StageArgument("images", x.shape[0]),
        StageArgument("ic", x.shape[1]),
        StageArgument("oc", main.shape[1]),
    ]
    arguments += [StageArgument("groups", pattern.numbers[-1]), *window_arguments]
    epilogue_arguments, epilogue, epilogue_traits = epilogue_variables(pattern)
    traits |= epilogue_traits | {"transposed" if is_transposed and not is_point else "plain"} | ({"point"} if is_point else set())
    if "epilogue" in traits:
        traits.add("after transposed" if is_transposed else "after plain")
    if is_transposed and not is_point:
        traits.add("padded")
    variables = {**variables, **epilogue, "is_transposed": is_transposed and not is_point, "flipped": is_transposed, "is_point": is_point}
    return PatternDescription((*arguments, *epilogue_arguments), variables, frozenset(traits))


def is_im2col(choice: Choice) -> bool:
    """Whether a matrix product does the work."""
    return choice.get("algorithm") == "im2col"


def has_scalar_loops(choice: Choice) -> bool:
    """Whether there are loops over single elements, which can be vectorised."""
    return choice.get("algorithm") == "shift" or (is_im2col(choice) and choice.get("gemm") != "block")


def is_input_copied(choice: Choice) -> bool:
    """Whether the input is copied into another layout first."""
    return choice.get("algorithm") in ("im2col", "block")


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("direct", "shift", "im2col", "block")),
        Decision("gemm", ("axpy", "tiled", "block"), is_im2col),
        Decision("tile", ("16", "32", "64", "128"), one_of("gemm", "tiled")),
        Decision("span", ("all", "1", "8"), is_im2col, excluded_by="point"),
        Decision("mr", ("1", "2", "4", "6", "8", "native"), has_register_tile),
        Decision("nr", ("1", "2", "3", "4"), lambda choice: has_register_tile(choice) and choice.get("mr") != "native"),
        Decision("pack", ("none", "w"), has_register_tile),
        Decision("order", ("channels", "rows", "pieces"), one_of("algorithm", "block")),
        Decision("skew", ("none", "odd"), one_of("algorithm", "block")),
        SIMD._replace(when=has_scalar_loops, excluded_by="epilogue"),
        SIMD._replace(when=lambda choice: True, trait="epilogue"),
        LANES,
        TAIL._replace(when=has_explicit_vectors),
        TAIL._replace(options=("scalar", "assume"), when=lambda choice: choice.get("gemm") == "tiled" and not has_explicit_vectors(choice)),
        Decision("scratch", SCRATCH, is_input_copied, excluded_by="point"),
        Decision("scratch", SCRATCH, one_of("algorithm", "block"), trait="point"),
        BORDER,
        FUSION._replace(trait="after transposed"),
        FUSION._replace(options=("pass", "image", "row"), trait="after plain"),
        WINDOW, ACC._replace(when=one_of("algorithm", "direct")), MATH, ALIAS, THREADS,
    ),
    describe=describe,
)  # fmt: skip
