"""One reduction over any of the loops, with elementwise steps before and after it."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    CONVERT,
    DIVIDE,
    FOLD,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    NEST_CHUNK,
    NEST_LANES,
    NEST_ROWS,
    NEST_WHOLE,
    PASSES,
    PRODUCT,
    ROW_CHUNK,
    ROWS,
    SEMANTICS,
    TAIL_CHUNK,
    TURN,
    VIEW,
    WHOLE,
    always,
    is_row_view,
    is_unchunked,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import START, emit_function
from evokernel.generators.template_search.dialects.pallas.layouts import Layout
from evokernel.generators.template_search.dialects.pallas.loop_nests import reduction_traits, reduction_variables, stage_arguments
from evokernel.generators.template_search.dialects.pallas.stored_loops import order_loops
from evokernel.generators.template_search.graph import UnsupportedPattern, reachable_nodes
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a reduction with the steps before and after it, as one function and as separate functions."""
    (main,) = pattern.main_nodes
    if not any(a.is_reduced for a in pattern.axes):
        raise UnsupportedPattern("a reduction over axes of extent one")
    pattern, _ = order_loops(pattern)
    names = {o.node: f"x{i}" for i, o in enumerate(pattern.operands)}
    free = name_free_numbers(pattern.root)
    variables = reduction_variables(pattern, names, free, False)
    before = reachable_nodes(main.args[0], set())
    after = reachable_nodes(pattern.root, {main})
    first = {x: n for x, n in names.items() if x in before}
    # An operand of the epilogue may have another layout than the same operand before the reduction.
    last = {main: "total", **{x: n.replace("x", "e") for x, n in names.items() if x in after}}

    def emit_body(divide: str, axis: int | str, valid: str = "") -> str:
        return emit_function("body", pattern.root, names, divide, valid, axis, free)

    def emit_parts(divide: str) -> list[str]:
        return [
            emit_function("body", main.args[0], first, divide, numbers=free),
            emit_function("finish", pattern.root, last, divide, numbers=free),
        ]

    emit_body("exact", 1)
    fold = "sum" if main.name == "mean" else main.name
    layout = variables["layouts"].get("rows") if isinstance(variables["layouts"], dict) else None
    views = layout.views if isinstance(layout, Layout) else ()
    variables |= {
        "whole": emit_body, "apart": emit_parts, "fold": fold, "start": START[fold], "is_mean": main.name == "mean",
        "before": [v for v in views if v.name in first.values()],
        "after": [v for v in views if v.name.replace("x", "e") in last.values()],
    }  # fmt: skip
    traits = reduction_traits(pattern, variables) | ({"sum"} if fold == "sum" else set())
    return PatternDescription(stage_arguments(pattern, names, free), variables, frozenset(traits))


def is_column(choice: Choice) -> bool:
    """Whether the results of rows are stored as a column."""
    return choice.get("algorithm", "chunks") == "chunks" or choice.get("out") == "column"


template = KernelTemplate(
    decisions=(
        VIEW,
        Decision("algorithm", ("whole", "chunks", "product"), is_row_view, trait="sum", excluded_by="single"),
        WHOLE._replace(options=("whole", "chunks"), excluded_by="sum"),
        NEST_WHOLE,
        TURN._replace(when=lambda choice: is_row_view(choice) and choice["algorithm"] == "whole", trait="some"),
        Decision("out", ("column", "lanes"), lambda choice: choice.get("turn") == "no", trait="some"),
        ROWS._replace(when=lambda choice: is_row_view(choice) and is_column(choice)),
        IN_LANES._replace(when=lambda choice: is_row_view(choice) and not is_column(choice)),
        NEST_ROWS, NEST_LANES, LANES._replace(trait="single"), ROW_CHUNK, NEST_CHUNK, TAIL_CHUNK,
        MASK, MASK._replace(when=always, trait="single"),
        FOLD._replace(when=one_of("algorithm", "chunks")), FOLD._replace(trait="single"),
        PASSES._replace(when=one_of("algorithm", "product")),
        PRODUCT, DIVIDE, CONVERT,
        SEMANTICS._replace(when=is_unchunked, trait="some"), ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
