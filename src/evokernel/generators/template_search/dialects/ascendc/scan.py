"""Running sums and products along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import COMMON, ROWS_ALWAYS, SHARE, multiply_extents
from evokernel.generators.template_search.dialects.loop_text import extent_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a scan by the extents before the axis, along it and after it."""
    along = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    (x,) = pattern.tensors
    if len(along) != 1 or x.dtype != "float32" or pattern.main_nodes[0].name not in ("sum", "prod"):
        raise UnsupportedPattern("a running value over one element, several axes or other than float32")
    at, last = along[0], len(pattern.axes) - 1
    kind = pattern.main_nodes[0].name
    variables = {
        "outer": multiply_extents(range(at)), "n": f"n{at}", "inside": multiply_extents(range(at + 1, last + 1)), "strided": at != last,
        "start": "0.0f" if kind == "sum" else "1.0f", "sign": "+" if kind == "sum" else "*", "call": "Add" if kind == "sum" else "Mul",
    }  # fmt: skip
    traits = {"strided"} if at != last else {"rows", "sums"} if kind == "sum" else {"rows"}
    return PatternDescription((StageArgument("x0", x), *extent_arguments(pattern.axes)), variables, frozenset(traits))


def unless_library(decision: Decision) -> Decision:
    """The decision, which does not apply to running sums of the library."""
    return decision._replace(when=lambda choice: choice.get("algorithm") != "library" and decision.when(choice))


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("serial", "shift"), trait="rows", excluded_by="sums"),
        Decision("algorithm", ("serial", "shift", "segments", "library"), trait="sums"),
        *(unless_library(decision) for decision in (ROWS_ALWAYS, *COMMON) if decision.name != "share"),
        SHARE,
    ),
    describe=describe,
)
"""`algorithm`: element by element, by adding shifted copies of the row with doubling shifts, in all segments of eight at once, or by
the library in segments of 16.
"""
