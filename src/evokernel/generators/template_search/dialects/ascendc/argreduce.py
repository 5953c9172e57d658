"""Argmax and argmin along the last axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    ALGORITHM,
    ALGORITHM_LONG,
    ALGORITHM_TOGETHER,
    PREFETCH,
    ROW_COMMON,
    ROWS,
    TILES,
    multiply_extents,
    unless_together,
)
from evokernel.generators.template_search.dialects.loop_text import extent_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern

MAX_ROW = 15000
"""Elements up to which a complete row fits into every buffer."""
MAX_TOGETHER = 2048
"""Elements up to which one instruction finds the best of all parts of 64 elements."""


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes an argmax or argmin by the number of rows and their length."""
    last = len(pattern.axes) - 1
    if not pattern.axes or [i for i, a in enumerate(pattern.axes) if a.is_reduced] != [last]:
        raise UnsupportedPattern("an argmax or argmin along an axis other than the last")
    (x,) = pattern.tensors
    if x.dtype != "float32" or pattern.root.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"an argmax or argmin of {x.dtype}")
    is_max = pattern.main_nodes[0].name == "argmax"
    variables = {
        "rows": multiply_extents(range(last)), "last": last, "call": "ReduceMax" if is_max else "ReduceMin", "sign": ">" if is_max else "<",
        "start": "-INF" if is_max else "INF", "step": 2 if pattern.root.dtype == "int64" else 1,
    }  # fmt: skip
    longest = max(pattern.axes[last].extent.values)
    traits = {"long"} if longest > MAX_ROW else {"rows", "tiled"} | ({"together"} if longest <= MAX_TOGETHER else set())
    return PatternDescription((StageArgument("x0", x), *extent_arguments(pattern.axes)), variables, frozenset(traits))


template = KernelTemplate(
    decisions=(
        ALGORITHM, ALGORITHM_TOGETHER, ALGORITHM_LONG, TILES, ROWS,
        *unless_together(Decision("reduce", ("level", "scalar"))),
        Decision("index", ("bits", "value"), one_of("reduce", "level")),
        *ROW_COMMON, PREFETCH,
    ),
    describe=describe,
)  # fmt: skip
"""`index`: the position from a reduction is read as integer bits, or as a float like the value."""
