"""Several reductions over the same loops, each of which may use earlier ones; the result has all elements or one per row."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    BUFFERS,
    CONVERT,
    DIVIDE,
    EDGE_INSIDE,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    NEST_CHUNK,
    NEST_LANES,
    NEST_ROWS,
    NEST_WHOLE,
    PIPELINE,
    PRODUCT,
    ROW_CHUNK,
    ROWS,
    SEMANTICS,
    STRIP,
    TAIL_CHUNK,
    TURN,
    VIEW,
    WHOLE,
    always,
    is_grid_pipeline,
    is_row_view,
    is_transposed,
    is_unchunked,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import emit_function
from evokernel.generators.template_search.dialects.pallas.loop_nests import reduction_traits, reduction_variables, stage_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern, is_same_shape
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes reductions in every layout the loops allow; the result has the shape of the input or of a reduction."""
    if not any(a.is_reduced for a in pattern.axes):
        raise UnsupportedPattern("a reduction over axes of extent one")
    names = {o.node: f"x{i}" for i, o in enumerate(pattern.operands)}
    free = name_free_numbers(pattern.root)

    def emit_body(divide: str, axis: int | str, valid: str = "") -> str:
        return emit_function("body", pattern.root, names, divide, valid, axis, free)

    emit_body("exact", 1)
    variables = reduction_variables(pattern, names, free, is_same_shape(pattern.root.shape, pattern.main_nodes[0].args[0].shape))
    return PatternDescription(
        stage_arguments(pattern, names, free), {**variables, "whole": emit_body}, frozenset(reduction_traits(pattern, variables))
    )


def is_plain(choice: Choice) -> bool:
    """Whether blocks of rows and columns hold complete rows."""
    return is_row_view(choice) and is_unchunked(choice)


template = KernelTemplate(
    decisions=(
        VIEW, WHOLE, NEST_WHOLE,
        PIPELINE._replace(when=is_plain, trait="some"),
        TURN._replace(when=lambda choice: is_plain(choice) and is_grid_pipeline(choice), trait="some"),
        ROWS._replace(when=lambda choice: is_row_view(choice) and not is_transposed(choice)),
        IN_LANES._replace(when=is_transposed),
        NEST_ROWS, NEST_LANES, LANES._replace(trait="single"), ROW_CHUNK, NEST_CHUNK, TAIL_CHUNK,
        MASK, MASK._replace(when=always, trait="single"), BUFFERS, EDGE_INSIDE,
        STRIP._replace(when=lambda choice: is_plain(choice) and not is_transposed(choice), trait="some"),
        PRODUCT, DIVIDE, CONVERT,
        SEMANTICS._replace(trait="some"), LIMIT,
    ),
    describe=describe,
)  # fmt: skip
