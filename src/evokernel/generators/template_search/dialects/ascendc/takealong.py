"""Elements selected along an axis, by an index tensor or by one index for all positions of the other axes."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import SHARE, TILE
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, axis_sizes
from evokernel.generators.template_search.operators.indexing import SHARED
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums

ELEMENTS = {"float32": "float", "int32": "int32_t", "float16": "half"}
MAX_ROW = 16384
"""Elements of a row up to which it is copied to local memory as a whole."""


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a selection by the sizes before, along and after the axis."""
    (x, rows), axis = pattern.tensors, pattern.root.dims[0]
    if x.dtype not in ELEMENTS or rows.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"{x.dtype} elements by {rows.dtype} indices")
    is_shared = pattern.root.name == SHARED
    is_last = multiply_nums(x.shape[axis + 1 :]).is_one
    n, m = x.shape[axis], pattern.root.shape[axis]
    is_dense = is_last and max(n.values) <= MAX_ROW and 8 * m.value >= n.value
    variables = {
        "T": ELEMENTS[x.dtype], "size": 2 if x.dtype == "float16" else 4, "step": 2 if rows.dtype == "int64" else 1, "shared": is_shared,
        "rows": is_shared and not is_last,
    }  # fmt: skip
    arguments = (StageArgument("x", x), StageArgument("at", rows), *axis_sizes(x.shape, pattern.root.shape, axis))
    return PatternDescription(arguments, variables, frozenset({"dense"} if is_dense else ()))


template = KernelTemplate(
    decisions=(Decision("algorithm", ("elements", "gather"), trait="dense"), TILE, Decision("depth", ("1", "2", "4")), SHARE),
    describe=describe,
)
"""`algorithm`: elements one by one, or complete rows in local memory and one instruction for all indices of a row."""
