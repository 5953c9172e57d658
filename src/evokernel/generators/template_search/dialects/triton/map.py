"""Elementwise steps: flat blocks of elements, or blocks of rows and columns if tensors are broadcast."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.blocks import BlockAxes, call_text, plan_reads, read_arguments, split_position
from evokernel.generators.template_search.dialects.descriptions import require_float32
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, number_arguments
from evokernel.generators.template_search.dialects.triton.block_reads import MaskedRead
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.dialects.triton.emit import emit_function
from evokernel.generators.template_search.kernel_template import (
    KernelTemplate,
    PatternDescription,
    TemplateVariables,
    name_free_numbers,
)
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes elementwise steps by the loops over the output and how a block reads each tensor."""
    require_float32(pattern.root)
    free, loops = name_free_numbers(pattern.root), tuple(range(len(pattern.axes)))
    forms = {"flat": BlockAxes(loops), "tile": BlockAxes(loops[:-1], loops[-1:])}
    reads = plan_reads(pattern.operands, forms["flat"], MaskedRead)
    variables = {
        "forms": {name: form_variables(pattern, axes, list(free.values())) for name, axes in forms.items()},
        "body": (pattern.root, {r.node: r.name for r in reads}, free),
        "emit": emit_function,
    }
    arguments = (*read_arguments(reads), *extent_arguments(pattern.axes), *number_arguments(free))
    return PatternDescription(arguments, variables, frozenset({"broadcast"} if len(loops) > 1 else ()))


def form_variables(pattern: KernelPattern, axes: BlockAxes, free: list[str]) -> TemplateVariables:
    """The text of one form of a block."""
    reads = plan_reads(pattern.operands, axes, MaskedRead)
    used = " ".join(r.offset for r in reads)
    return {
        "reads": reads, "axes": axes, "row_lines": split_position("k", axes.rows, used), "col_lines": split_position("r", axes.cols, used),
        "call": call_text("body", {r.node: f"v_{r.name}" for r in reads}, free), "out": axes.offset([*axes.rows, *axes.cols]),
    }  # fmt: skip


template = KernelTemplate(
    decisions=(
        Decision("form", ("flat", "tile"), trait="broadcast"),
        BLOCK._replace(when=lambda choice: choice.get("form") != "tile"),
        Decision("rows", ("1", "2", "4", "8", "16", "32"), one_of("form", "tile")),
        Decision("cols", ("32", "64", "128", "256", "512", "1024"), one_of("form", "tile")),
        WARPS,
    ),
    describe=describe,
)
