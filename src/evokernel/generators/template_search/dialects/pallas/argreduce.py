"""Argmax and argmin along one axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    CHUNK,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    NEST_CHUNK,
    NEST_LANES,
    NEST_ROWS,
    ROWS,
    SEMANTICS,
    TAIL_CHUNK,
    TURN,
    always,
    is_transposed,
    is_unchunked,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.layouts import axis_arguments, nest_layout
from evokernel.generators.template_search.dialects.pallas.loop_nests import Nest
from evokernel.generators.template_search.dialects.pallas.stored_loops import is_reordered, order_loops
from evokernel.generators.template_search.graph import Node, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes an argmax or argmin by the sizes before, along and after the axis."""
    (main,), (x,) = pattern.main_nodes, pattern.tensors
    if len(main.dims) != 1:
        raise UnsupportedPattern(f"{main.name} over several axes")
    if is_reordered(pattern):
        return describe_nest(pattern, x)
    arguments, is_strided = axis_arguments(x, main.dims[0])
    variables = {"strided": is_strided, "fold": main.name.removeprefix("arg"), "kind": x.dtype, "nest": None}
    return PatternDescription(arguments, variables, frozenset({"strided" if is_strided else "rows"}))


def describe_nest(pattern: KernelPattern, x: Node) -> PatternDescription:
    """Describes an argmax or argmin by one loop per axis, in the order in which XLA stores the tensor."""
    split, order = order_loops(pattern)
    layout = nest_layout(split.axes, split.operands, {x: "x"}, order)
    extents = (StageArgument(f"n{i}", a.extent) for i, a in enumerate(split.axes))
    variables = {
        "layout": layout, "nest": Nest(layout, False), "fold": split.main_nodes[0].name.removeprefix("arg"), "kind": x.dtype,
    }  # fmt: skip
    traits = {"nest", "tail" if split.axes[order[-1]].is_reduced else "tiled"}
    return PatternDescription((StageArgument("x", x), *extents), variables, frozenset(traits))


def is_in_lanes(choice: Choice) -> bool:
    """Whether the results are stored along lanes."""
    return choice.get("out") == "lanes" or is_transposed(choice)


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("native", "equal", "last", "chunks"), trait="rows"),
        Decision("algorithm", ("native", "equal", "last"), trait="strided"),
        NEST_ROWS._replace(when=always, options=("8", "64"), trait="nest"),
        NEST_LANES._replace(when=always, trait="tiled"),
        NEST_CHUNK._replace(when=always, options=("64", "512"), trait="tiled", excluded_by=""),
        TAIL_CHUNK._replace(when=always, options=("512", "2048", "16384")),
        LANES._replace(trait="strided"),
        TURN._replace(when=is_unchunked, trait="rows"),
        Decision("out", ("column", "lanes"), lambda choice: is_unchunked(choice) and not is_transposed(choice), trait="rows"),
        ROWS._replace(when=lambda choice: not is_in_lanes(choice), trait="rows"),
        IN_LANES._replace(when=is_in_lanes, trait="rows"),
        CHUNK, MASK,
        SEMANTICS._replace(when=is_unchunked),
        ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
