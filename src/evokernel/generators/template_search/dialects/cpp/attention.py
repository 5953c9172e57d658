"""Attention, softmax(q k' * scale) v: all scores at once, some rows at a time, or in blocks with a running maximum."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, LANES, MATH, SCRATCH, SIMD, TAIL, UNROLL
from evokernel.generators.template_search.dialects.cpp.gemm_common import GEMM
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes attention by its sizes and scale."""
    q, key, value = pattern.tensors
    if any(x.dtype != "float32" for x in (*pattern.tensors, pattern.root)):
        raise UnsupportedPattern("attention in other than float32")
    sizes = {"batch": multiply_nums(q.shape[:-2]), "M": q.shape[-2], "N": key.shape[-2], "D": q.shape[-1], "E": value.shape[-1]}
    arguments = (
        StageArgument("q", q),
        StageArgument("key", key),
        StageArgument("value", value),
        *(StageArgument(name, size) for name, size in sizes.items()),
    )
    traits = {"math", "causal"} if pattern.is_causal else {"math"}
    return PatternDescription(
        (*arguments, StageArgument("scale", pattern.numbers[0])), {"causal": pattern.is_causal, "has_math": True}, frozenset(traits)
    )


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("full", "rows", "online")),
        Decision("rows", ("1", "8", "32", "64"), one_of("algorithm", "rows", "online")),
        Decision("span", ("16", "64", "128"), one_of("algorithm", "online")),
        Decision("ahead", ("masked", "skipped"), trait="causal"),
        *GEMM, SIMD, LANES, UNROLL, TAIL, Decision("scratch", (*SCRATCH, "kept")), MATH, ALIAS,
    ),
    describe=describe,
)  # fmt: skip
