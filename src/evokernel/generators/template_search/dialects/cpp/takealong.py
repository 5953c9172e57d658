"""Elements gathered along an axis, by an index tensor or by one index for all positions of the other axes."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp import ELEMENTS
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, LANES, ORDER, SIMD, TAIL, THREADS, UNROLL
from evokernel.generators.template_search.graph import Node, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import (
    KernelTemplate,
    PatternDescription,
    StageArgument,
    TemplateVariables,
    axis_sizes,
)
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by the sizes before, along and after the axis."""
    x, rows = pattern.tensors
    is_shared = pattern.root.name == SHARED
    variables, traits = walk_variables(x, rows, pattern.root.dims[0], is_shared)
    arguments = (StageArgument("x", x), StageArgument("at", rows), *axis_sizes(x.shape, pattern.root.shape, pattern.root.dims[0]))
    return PatternDescription(arguments, variables, traits)


def walk_variables(x: Node, rows: Node, axis: int, is_shared: bool) -> tuple[TemplateVariables, frozenset[str]]:
    """The inner loop: along the axis itself if it is the last one, otherwise along the axes after it."""
    if rows.dtype not in ("int64", "int32") or x.dtype in ("float16", "bfloat16"):
        raise UnsupportedPattern(f"{x.dtype} elements with {rows.dtype} indices")
    last = multiply_nums(x.shape[axis + 1 :]).is_one
    variables = {"T": ELEMENTS[x.dtype], "K": ELEMENTS[rows.dtype], "last": last, "shared": is_shared}
    return variables, frozenset({"copies"} if is_shared and not last else ()) | ({"floats"} if x.dtype == "float32" else set())


template = KernelTemplate(
    decisions=(
        ORDER,
        Decision("algorithm", ("memcpy", "loop"), one_of("order", "rows"), trait="copies"),
        SIMD._replace(when=lambda choice: choice["order"] == "rows" and choice.get("algorithm") != "memcpy", trait="floats"),
        LANES,
        UNROLL,
        TAIL._replace(options=("scalar", "steps", "assume")),
        ALIAS, INDEX, THREADS,
    ),
    describe=describe,
)  # fmt: skip
