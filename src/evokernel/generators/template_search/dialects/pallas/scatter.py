"""Scatter: a tensor with elements at given positions replaced or incremented, by comparing positions, row by row, or as a product."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import EXACT, LIMIT, SEMANTICS
from evokernel.generators.template_search.dialects.pallas.takealong import is_last_axis
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a scatter by the sizes before, along and after the axis."""
    x, places, source = pattern.tensors
    axis, is_shared, adds = pattern.root.dims[0], pattern.root.name.startswith(SHARED), pattern.root.name.endswith("add")
    if source.dtype != "float32":
        raise UnsupportedPattern(f"{source.dtype} elements scattered into others")
    variables = {"last": is_last_axis(x, places, axis), "shared": is_shared, "adds": adds}
    arguments = (
        StageArgument("x", x),
        StageArgument("at", places),
        StageArgument("source", source),
        *axis_sizes(x.shape, source.shape, axis),
    )
    traits = {"shared", "shared sum"} if is_shared and adds else {"shared"} if is_shared else {"sum"} if adds else set()
    return PatternDescription(arguments, variables, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("loop", ("table", "picks"), trait="sum"),
        EXACT._replace(trait="shared sum"),
        Decision("rows", ("12", "64", "128", "256"), trait="shared"),
        Decision("rows", ("8", "20", "64"), excluded_by="shared"),
        Decision("lanes", ("128", "256")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
