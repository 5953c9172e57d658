"""Attention, softmax(q k' * scale) v, in one kernel: complete rows of scores at once, or blocks of keys with a running softmax."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, PRECISION, SEMANTICS, is_unchunked
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes attention by queries, keys, values and scale; all batch axes become one."""
    if any(x.dtype != "float32" for x in pattern.tensors):
        raise UnsupportedPattern("attention over other than float32 tensors")
    arguments = (
        *(StageArgument(name, x) for name, x in zip(("q", "key", "value"), pattern.tensors)),
        StageArgument("scale", pattern.numbers[0]),
    )
    traits = ({"causal"} if pattern.is_causal else set()) | ({"batched"} if len(pattern.tensors[0].shape) > 2 else set())
    return PatternDescription(arguments, {"causal": pattern.is_causal}, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("whole", "turned", "chunks")),
        Decision("rows", ("32", "64", "100", "128", "256"), one_of("algorithm", "whole", "chunks")),
        Decision("rows", ("100", "128", "256", "512"), one_of("algorithm", "turned")),
        Decision("batch", ("1", "2", "4"), is_unchunked, trait="batched"),
        Decision("span", ("64", "128", "256"), one_of("algorithm", "chunks")),
        Decision("fill", ("pad", "mask", "none"), one_of("algorithm", "chunks")),
        Decision("skip", ("no", "yes"), one_of("algorithm", "chunks"), trait="causal"),
        Decision("divide", ("after", "before"), is_unchunked),
        Decision("divide", ("after", "reciprocal", "approx"), one_of("algorithm", "chunks")),
        PRECISION._replace(options=("highest", "default", "thirds")),
        PRECISION._replace(name="mixing", options=("highest", "split")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
