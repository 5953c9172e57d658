"""Elementwise steps: every thread computes packs of neighbouring elements."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.blocks import BlockAxes, call_text, read_arguments
from evokernel.generators.template_search.dialects.cuda.common_decisions import MATH, THREADS, VECTOR
from evokernel.generators.template_search.dialects.cuda.emit import emit_function, has_fast_form
from evokernel.generators.template_search.dialects.cuda.packs import launch_conditions, plan_packs, position_lines
from evokernel.generators.template_search.dialects.descriptions import require_float32
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, number_arguments
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes elementwise steps by the loops over the output and how a thread reads each tensor."""
    require_float32(pattern.root)
    axes, free = BlockAxes(tuple(range(len(pattern.axes)))), name_free_numbers(pattern.root)
    reads = plan_packs(pattern, axes)
    variables = {
        "reads": reads, "lines": position_lines("k", axes.rows, " ".join(r.offset for r in reads)), "axes": axes,
        "body": (pattern.root, {r.node: r.name for r in reads}, free), "emit": emit_function,
        "call": call_text("body", {r.node: r.value for r in reads}, list(free.values())), **launch_conditions(pattern, reads),
    }  # fmt: skip
    arguments = (*read_arguments(reads), *extent_arguments(pattern.axes), *number_arguments(free))
    return PatternDescription(arguments, variables, frozenset({"math"} if has_fast_form(pattern.root) else ()))


template = KernelTemplate(
    decisions=(Decision("grid", ("all", "stride")), THREADS, VECTOR, Decision("each", ("1", "2", "4", "8")), MATH), describe=describe
)
"""`grid`: as many blocks as there are elements for, or as many as the device runs at once, in a loop."""
