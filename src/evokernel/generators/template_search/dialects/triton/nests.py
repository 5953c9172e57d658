"""Reductions over some loops of an iteration space: passes over blocks, with the kept loops as rows and the reduced ones as columns."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.blocks import BlockAxes, plan_reads, read_arguments, split_position
from evokernel.generators.template_search.dialects.descriptions import require_float32
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, number_arguments
from evokernel.generators.template_search.dialects.nests import Nest, ReductionForm, find_softmax, split_axes
from evokernel.generators.template_search.dialects.triton.block_reads import MaskedRead
from evokernel.generators.template_search.dialects.triton.common_decisions import WARPS
from evokernel.generators.template_search.dialects.triton.emit import emit_function
from evokernel.generators.template_search.kernel_template import PatternDescription, TemplateVariables, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern

FORMS = {
    "sum": ReductionForm("0.0", "{0} + {1}", "tl.sum({0}, axis=1)"),
    "mean": ReductionForm("0.0", "{0} + {1}", "tl.sum({0}, axis=1)", "{0} / cols"),
    "max": ReductionForm('float("-inf")', "tl.maximum({0}, {1})", "tl.max({0}, axis=1)"),
    "min": ReductionForm('float("inf")', "tl.minimum({0}, {1})", "tl.min({0}, axis=1)"),
    "prod": ReductionForm("1.0", "{0} * {1}", "tl.reduce({0}, 1, multiply)"),
}


def describe_nest(pattern: KernelPattern) -> PatternDescription:
    """Describes a pattern with reductions as passes over blocks."""
    require_float32(pattern.root)
    axes, free = split_axes(pattern), name_free_numbers(pattern.root)
    reads = plan_reads(pattern.operands, axes, MaskedRead)
    nest = Nest(pattern, reads, free, FORMS)
    variables = {
        **block_variables(reads, axes, nest.is_full, len(pattern.axes)), "passes": nest.passes, "final": nest.final,
        "groups": nest.groups, "functions": nest.functions, "emit": emit_function, "free": free, "is_full": nest.is_full,
        "softmax": find_softmax(pattern),
    }  # fmt: skip
    traits = {"strided" if pattern.axes[-1].is_reduced is False else "inner"}
    traits |= {"softmax"} if variables["softmax"] else set()
    arguments = (*read_arguments(reads), *extent_arguments(pattern.axes), *number_arguments(free))
    return PatternDescription(arguments, variables, frozenset(traits))


def block_variables(reads: tuple[MaskedRead, ...], axes: BlockAxes, is_full: bool, loops: int) -> TemplateVariables:
    """The positions of a block and of its result."""
    out = axes.offset(list(range(loops))) if is_full else "k"
    used = " ".join([out, *(r.offset for r in reads)])
    return {
        "axes": axes, "out_offset": out, "row_lines": split_position("k", axes.rows, used),
        "col_lines": split_position("r", axes.cols, used), "row_reads": [r for r in reads if not r.has_cols],
    }  # fmt: skip


def has_chunks(choice: Choice) -> bool:
    """Whether a loop reads a row in chunks."""
    return choice.get("algorithm") != "whole"


NEST_DECISIONS = (
    Decision("algorithm", ("whole", "chunks", "split", "online"), trait="softmax"),
    Decision("algorithm", ("whole", "chunks", "split")),
    Decision("splits", ("4", "16", "64", "256"), one_of("algorithm", "split")),
    Decision("rows", ("1", "2", "4", "8", "16", "32"), trait="inner"),
    Decision("rows", ("16", "32", "64", "128", "256"), trait="strided"),
    Decision("cols", ("256", "512", "1024", "2048", "4096", "8192"), has_chunks, trait="inner"),
    Decision("cols", ("1", "2", "4", "8", "16", "32", "64"), has_chunks, trait="strided"),
    WARPS,
)
"""`whole` holds a row in registers, `chunks` reads it once per reduction, `online` once for softmax; `split` spreads it over programs."""
