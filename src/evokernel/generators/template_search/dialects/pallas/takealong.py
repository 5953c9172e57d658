"""Elements gathered along an axis: by comparing positions, row by row, or as a product with a one-hot matrix."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.graph import Node, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the sizes before, along and after the axis."""
    x, places = pattern.tensors
    axis, is_shared = pattern.root.dims[0], pattern.root.name == SHARED
    variables = {"last": is_last_axis(x, places, axis), "shared": is_shared}
    arguments = (StageArgument("x", x), StageArgument("at", places), *axis_sizes(x.shape, pattern.root.shape, axis))
    return PatternDescription(arguments, variables, frozenset({"shared"} if is_shared else ()))


def is_last_axis(x: Node, places: Node, axis: int) -> bool:
    """Whether the axis is the last one; then the template moves it to the sublanes."""
    if x.dtype != "float32" or places.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"{x.dtype} elements with {places.dtype} indices")
    return multiply_nums(x.shape[axis + 1 :]).is_one


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("rows", "product"), trait="shared"),
        Decision("loop", ("table", "picks"), excluded_by="shared"),
        Decision("store", ("row", "tile"), one_of("algorithm", "rows")),
        EXACT._replace(when=one_of("algorithm", "product")),
        Decision("rows", ("12", "64", "128", "256")),
        Decision("lanes", ("128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
