"""Reductions over some loops of an iteration space: a team of threads per row, or per few neighbouring rows if the last loop is kept."""

from __future__ import annotations

from collections import Counter

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.blocks import read_arguments
from evokernel.generators.template_search.dialects.cuda.common_decisions import COLUMN_TEAM, MATH, THREADS, VECTOR, row_team
from evokernel.generators.template_search.dialects.cuda.emit import emit_function, has_fast_form
from evokernel.generators.template_search.dialects.cuda.packs import PackRead, launch_conditions, plan_packs, position_lines
from evokernel.generators.template_search.dialects.descriptions import require_float32
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, number_arguments
from evokernel.generators.template_search.dialects.nests import Nest, ReductionForm, find_softmax, split_axes
from evokernel.generators.template_search.kernel_template import PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern

OPERATIONS = {"sum": "Sum", "mean": "Sum", "max": "Max", "min": "Min", "prod": "Product"}
FOLDS = {"inner": "reduce_row<{0}, TEAM>({{0}}, parts)", "strided": "reduce_columns<{0}, TEAM, WIDTH>({{0}}, parts)"}


def reduction_forms(trait: str) -> dict[str, ReductionForm]:
    """How reductions are written if the last loop is reduced (`inner`) or kept (`strided`)."""
    return {
        kind: ReductionForm(
            f"{name}::start()", f"{name}::join({{0}}, {{1}})", FOLDS[trait].format(name),
            "divide({0}, (float)cols)" if kind == "mean" else "{0}",
        )
        for kind, name in OPERATIONS.items()
    }  # fmt: skip


def describe_nest(pattern: KernelPattern) -> PatternDescription:
    """Describes a pattern with reductions as passes over packs of elements."""
    require_float32(pattern.root)
    axes, free = split_axes(pattern), name_free_numbers(pattern.root)
    trait = "inner" if pattern.axes[-1].is_reduced else "strided"
    reads = plan_packs(pattern, axes)
    nest = Nest(pattern, reads, free, reduction_forms(trait), "r{0}" if trait == "inner" else "r{0}.at[v]")
    held = find_held(nest, reads)
    out = axes.offset(list(range(len(pattern.axes)))) if nest.is_full else "k"
    used = " ".join([out, *(r.offset for r in reads)])
    variables = {
        "axes": axes, "out_offset": out, "row_lines": position_lines("k", axes.rows, used),
        "col_lines": position_lines("r", axes.cols, used),
        "row_reads": [r for r in reads if not r.has_cols], "nest": nest, "held": held, "strided": trait == "strided",
        "emit": emit_function, "free": free, **launch_conditions(pattern, reads),
        "uses": lambda steps: sorted({number for step in steps for number in step.uses}),
    }  # fmt: skip
    traits = {trait} | ({"softmax"} if find_softmax(pattern) else set()) | ({"held"} if held else set())
    traits |= {"math"} if has_fast_form(pattern.root) else set()
    arguments = (*read_arguments(reads), *extent_arguments(pattern.axes), *number_arguments(free))
    return PatternDescription(arguments, variables, frozenset(traits))


def find_held(nest: Nest, reads: tuple[PackRead, ...]) -> list[str]:
    """The operands that several loops over the columns read, so that holding them saves reading them again."""
    loops = [{r.name for p in group for r in p.step.reads} for group in nest.groups]
    loops += [{r.name for r in nest.final.reads}] if nest.is_full else []
    count = Counter(name for loop in loops for name in loop)
    return [r.name for r in reads if count[r.name] > 1 and r.has_cols and not r.is_index]


HOLDS = one_of("hold", "registers", "shared")
NEST_DECISIONS = (
    Decision("algorithm", ("rows", "split", "online"), trait="softmax"),
    Decision("algorithm", ("rows", "split")),
    Decision("splits", ("4", "16", "64", "256"), one_of("algorithm", "split")),
    Decision("hold", ("registers", "shared", "nothing"), one_of("algorithm", "rows"), trait="held"),
    Decision("each", ("1", "2", "4", "8", "16"), HOLDS),
    row_team("inner"),
    COLUMN_TEAM,
    THREADS,
    VECTOR,
    MATH,
)
"""`team`: threads per row. `hold`: where a thread keeps the first `each` packs of its part of a row between the passes.

`split` spreads a row over several blocks, one kernel per pass; `online` computes maximum and sum of a softmax in one pass.
"""
