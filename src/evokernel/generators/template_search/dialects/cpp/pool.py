"""Pooling over one to three axes: window by window, one axis after the other, or on a copy with a padded border."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ALIAS,
    LANES,
    MATH,
    SCRATCH,
    SIMD,
    TAIL,
    THREADS,
    has_explicit_vectors,
)
from evokernel.generators.template_search.dialects.cpp.windows import BORDER, FUSION, WINDOW, epilogue_variables, window_variables
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a pooling by its window, its kind and its epilogue."""
    (x,), main = pattern.tensors, pattern.main_nodes[0]
    if x.dtype != "float32" or main.name not in ("max", "mean"):
        raise UnsupportedPattern(f"a pooling of kind {main.name} over {x.dtype}")
    rank = len(x.shape) - 2
    kinds = {kind: pattern.numbers[i * rank : (i + 1) * rank] for i, kind in enumerate("kspd")}
    window_arguments, variables, traits = window_variables(kinds, x.shape[2:])
    epilogue_arguments, epilogue, epilogue_traits = epilogue_variables(pattern)
    variables = {**variables, **epilogue, "kind": main.name, "counts": main.name == "mean" and main.dims != (1,)}
    arguments = (
        StageArgument("x", x),
        StageArgument("images", x.shape[0]),
        StageArgument("channels", x.shape[1]),
        *window_arguments,
        *epilogue_arguments,
    )
    return PatternDescription(arguments, variables, frozenset(traits | epilogue_traits))


def has_copy(choice: Choice) -> bool:
    """Whether there is an intermediate copy."""
    return choice.get("algorithm") in ("separable", "padded")


def has_row_loops(choice: Choice) -> bool:
    """Whether rows are combined as vectors."""
    return choice.get("algorithm") == "separable" or choice.get("order") == "taps"


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("direct", "separable", "padded")),
        BORDER._replace(when=one_of("algorithm", "direct", "padded")),
        BORDER._replace(options=("clip", "assume"), when=one_of("algorithm", "separable")),
        WINDOW,
        Decision("order", ("taps", "windows"), has_copy),
        SIMD._replace(when=has_row_loops, excluded_by="epilogue"),
        SIMD._replace(when=lambda choice: True, trait="epilogue"),
        LANES, TAIL._replace(when=has_explicit_vectors),
        Decision("scratch", SCRATCH, has_copy),
        FUSION._replace(options=("pass", "image", "row")),
        MATH, ALIAS, THREADS,
    ),
    describe=describe,
)  # fmt: skip
