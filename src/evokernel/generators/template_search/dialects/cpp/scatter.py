"""Scatter: a copy of a tensor with elements at given positions replaced or incremented."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.dialects.cpp.takealong import walk_variables
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a scatter by the sizes before, along and after the axis."""
    x, rows, source = pattern.tensors
    axis, is_shared = pattern.root.dims[0], pattern.root.name.startswith(SHARED)
    if x.dtype != source.dtype or x.dtype == "bool":
        raise UnsupportedPattern(f"{source.dtype} elements scattered into {x.dtype} ones")
    variables, traits = walk_variables(x, rows, axis, is_shared)
    arguments = (
        StageArgument("x", x),
        StageArgument("at", rows),
        StageArgument("source", source),
        *axis_sizes(x.shape, source.shape, axis),
    )
    return PatternDescription(arguments, {**variables, "op": "+=" if pattern.root.name.endswith("add") else "="}, traits)


def is_loop_explicit(choice: Choice) -> bool:
    """Whether the template writes the inner loop itself."""
    return choice.get("simd", "auto") != "omp"


template = KernelTemplate(
    decisions=(
        Decision("copied", ("whole", "rows", "loop")),
        SIMD._replace(options=("auto", "omp"), excluded_by="copies"),
        SIMD._replace(trait="copies"),
        LANES,
        UNROLL._replace(when=is_loop_explicit),
        TAIL._replace(options=("scalar", "steps", "assume")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
