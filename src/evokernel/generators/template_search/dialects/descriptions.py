"""Descriptions of patterns that Triton and CUDA templates share: sizes as arguments, and the kind of the operator."""

from __future__ import annotations

from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def require_float32(*roots: Node) -> None:
    """Raises UnsupportedPattern for steps with float64 tensors, which are computed in float32 here."""
    if any(n.dtype == "float64" for n in walk(*roots)):
        raise UnsupportedPattern("float64 tensors")


def describe_axis(pattern: KernelPattern) -> PatternDescription:
    """Describes a scan or an argmax/argmin by its three extents and its kind."""
    along = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    if len(along) > 1:
        raise UnsupportedPattern(f"a {pattern.family} over several axes")
    x = pattern.operands[0].node
    require_float32(x)
    at = along[0] if along else len(pattern.axes)
    extents = [axis.extent for axis in pattern.axes]
    sizes = {
        "outer": multiply_nums(extents[:at]),
        "n": extents[at] if along else Num.of(1),
        "inner": multiply_nums(extents[at + 1 :]),
    }
    arguments = (StageArgument("x", x), *(StageArgument(name, size) for name, size in sizes.items()))
    trait = "inner" if sizes["inner"].is_one else "strided"
    return PatternDescription(arguments, {"kind": pattern.main_nodes[0].name, "strided": trait == "strided"}, frozenset({trait}))


def describe_cross_entropy(pattern: KernelPattern) -> PatternDescription:
    """Describes a cross entropy by its sizes and its reduction."""
    logits, classes = pattern.tensors
    rows, cols = logits.shape
    arguments = (StageArgument("x", logits), StageArgument("y", classes), StageArgument("rows", rows), StageArgument("cols", cols))
    return PatternDescription(arguments, {"kind": pattern.main_nodes[0].name})


def describe_table_rows(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the number of rows and their width."""
    table, rows = pattern.tensors
    arguments = (
        StageArgument("table", table),
        StageArgument("index", rows),
        StageArgument("rows", multiply_nums(rows.shape)),
        StageArgument("cols", multiply_nums(table.shape[1:])),
        StageArgument("height", table.shape[0]),
    )
    return PatternDescription(arguments, {})


def describe_take_along(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the sizes before, along and after the axis."""
    x, rows = pattern.tensors
    arguments = (StageArgument("x", x), StageArgument("index", rows), *axis_sizes(x.shape, pattern.root.shape, pattern.root.dims[0]))
    return PatternDescription(arguments, {"shared": pattern.root.name == SHARED})
