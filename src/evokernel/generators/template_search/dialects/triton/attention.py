"""Attention, softmax(q k' * scale) v, in blocks of queries and keys with a running maximum."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.triton.common_decisions import PRECISION, STAGES, WARPS
from evokernel.generators.template_search.dialects.triton.matmul import HALVES
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums

MAX_WIDTH = 256
"""Elements of a query or value that a program holds."""


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes attention by its sizes and scale."""
    q, key, value = pattern.tensors
    sizes = {"batch": multiply_nums(q.shape[:-2]), "M": q.shape[-2], "N": key.shape[-2], "D": q.shape[-1], "E": value.shape[-1]}
    if any(x.dtype not in ("float32", *HALVES) for x in pattern.tensors) or len({x.dtype for x in pattern.tensors}) > 1:
        raise UnsupportedPattern(f"attention in {q.dtype}")
    if max(*sizes["D"].values, *sizes["E"].values) > MAX_WIDTH:
        raise UnsupportedPattern(f"attention with more than {MAX_WIDTH} elements per query")
    tensors = (StageArgument("q", q), StageArgument("key", key), StageArgument("value", value))
    arguments = (*tensors, *(StageArgument(name, size) for name, size in sizes.items()), StageArgument("scale", pattern.numbers[0]))
    traits = ({"float32"} if q.dtype == "float32" else set()) | ({"causal"} if pattern.is_causal else set())
    return PatternDescription(arguments, {"causal": pattern.is_causal, "dot_type": q.dtype}, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("rows", ("16", "32", "64", "128")),
        Decision("span", ("16", "32", "64", "128")),
        Decision("ahead", ("masked", "skipped"), trait="causal"),
        PRECISION, STAGES, WARPS,
    ),
    describe=describe,
)  # fmt: skip
"""`rows` queries per program and `span` keys per step."""
