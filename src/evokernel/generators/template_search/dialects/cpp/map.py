"""Elementwise steps: one inner loop per row of the innermost axes."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.dialects.cpp.common_decisions import (
    ALIAS,
    INDEX,
    LANES,
    MATH,
    ORDER,
    SIMD,
    TAIL,
    THREADS,
    UNROLL,
)  # fmt: skip
from evokernel.generators.template_search.dialects.cpp.operand_access import (
    emit_call,
    make_argument,
    plan_reads,
    precision_variables,
    tensor_arguments,
)
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, flat_index, number_arguments
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes elementwise steps by the loops over the output and how each tensor is read."""
    free, last = name_free_numbers(pattern.root), len(pattern.axes) - 1
    reads = plan_reads(pattern.operands)
    args = {r.node: replace(make_argument(r), name="begin" if r.inner and not r.kind else r.name) for r in reads}
    body, call = emit_call("body", pattern.root, args, free)
    variables = {
        "body": body, "f": call, "reads": reads, "last": last, "flat": flat_index(list(range(last))),
        "places": any(r.inner and not r.kind for r in reads), "scalar_params": "".join(f", float {s}" for s in free.values()),
        "scalars": "".join(f", {s}" for s in free.values()), "has_math": pattern.uses_math, **precision_variables(pattern.root),
    }  # fmt: skip
    traits = ({"broadcast"} if last > 0 else set()) | ({"math"} if pattern.uses_math else set())
    return PatternDescription(
        (*tensor_arguments(reads), *extent_arguments(pattern.axes), *number_arguments(free)), variables, frozenset(traits)
    )


template = KernelTemplate(
    decisions=(ORDER._replace(trait="broadcast"), SIMD, LANES, UNROLL, TAIL, MATH, ALIAS, INDEX, THREADS), describe=describe
)
