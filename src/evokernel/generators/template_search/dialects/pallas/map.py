"""Elementwise steps over blocks of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    BUFFERS,
    CONVERT,
    DIVIDE,
    EDGE,
    EDGE_INSIDE,
    LIMIT,
    PIPELINE,
    POSITIONS,
    ROWS,
    SEMANTICS,
    STRIP,
    has_tensor_division,
    is_grid_pipeline,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.emit import emit_function
from evokernel.generators.template_search.dialects.pallas.layouts import Result, multiply_extents, narrow_traits, row_layout
from evokernel.generators.template_search.dialects.pallas.row_program import has_first_axis_in_lanes
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, name_free_numbers
from evokernel.generators.template_search.patterns import Axis, KernelPattern, Operand, multiply_nums


def as_two_loops(pattern: KernelPattern) -> tuple[Sequence[Axis], Sequence[Operand]]:
    """The loops, at least two: a single loop is split before the last axis, or after the first one if XLA stores that one in lanes."""
    if len(pattern.axes) > 1:
        return pattern.axes, pattern.operands
    shape = pattern.root.shape
    if any(o.node.op == "index" for o in pattern.operands):
        return [Axis(Num.of(1)), Axis(multiply_nums(shape))], [Operand(o.node, (False, *o.present)) for o in pattern.operands]
    split = 1 if has_first_axis_in_lanes(pattern) else max(0, len(shape) - 1)
    operands = [Operand(o.node, (bool(pattern.axes) and o.is_full,) * 2) for o in pattern.operands]
    return [Axis(multiply_nums(shape[:split])), Axis(multiply_nums(shape[split:]))], operands


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes elementwise steps over arrays viewed as rows and columns; the columns are the loop in lanes, mostly the last one."""
    names = {o.node: f"x{i}" for i, o in enumerate(pattern.operands)}
    free = name_free_numbers(pattern.root)
    axes, operands = as_two_loops(pattern)
    cols = 0 if has_first_axis_in_lanes(pattern) else len(axes) - 1
    layout = row_layout(axes, operands, names, [cols], True)

    def body(divide: str) -> str:
        return emit_function("body", pattern.root, names, divide, numbers=free)

    body("exact")
    arguments = (
        *(StageArgument(names[o.node], o.node) for o in pattern.operands if o.node.op == "leaf"),
        *(StageArgument(f"n{i}", a.extent) for i, a in enumerate(axes)),
        *(StageArgument(s, n) for n, s in free.items()),
    )  # fmt: skip
    variables = {
        "body": body, "operands": layout.views, "result": Result(pattern.root), "out": layout.out,
        "rows": multiply_extents([i for i in range(len(axes)) if i != cols]), "cols": f"n{cols}",
    }  # fmt: skip
    positions = any(v.position_axis for v in layout.views)
    same = bool(pattern.axes) and all(o.is_full for o in pattern.operands) and not any(o.node.op == "index" for o in pattern.operands)
    traits = (
        ({"flat"} if same else {"broadcast"})
        | ({"divide"} if has_tensor_division(pattern.root) else set())
        | ({"index"} if positions else set())
        | ({"leading"} if cols == 0 else set())
    )
    return PatternDescription(arguments, variables, frozenset(traits | narrow_traits(pattern.root, pattern.operands)))


template = KernelTemplate(
    decisions=(
        Decision("view", ("rows", "flat"), trait="flat"),
        Decision("width", ("128", "512", "1024", "4096"), one_of("view", "flat")),
        PIPELINE,
        ROWS,
        Decision("cols", ("all", "100", "256", "512"), lambda choice: choice.get("view") != "flat" and choice["pipeline"] != "manual"),
        BUFFERS, EDGE, EDGE_INSIDE, STRIP, DIVIDE, CONVERT,
        POSITIONS._replace(when=lambda choice: is_grid_pipeline(choice) and choice.get("strip") == "none"),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
