"""A tensor seen along one axis: the extents before the axis, along it and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cpp.operand_access import CallArgument, FunctionCall, plan_reads, tensor_arguments
from evokernel.generators.template_search.dialects.loop_text import extent_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern

STARTS = {"sum": "0.0f", "prod": "1.0f"}
SIGNS = {"sum": "+", "prod": "*"}


def describe_axis(pattern: KernelPattern) -> PatternDescription:
    """Describes a scan or an argmax/argmin by its three extents and its kind."""
    along = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    if len(along) != 1:
        raise UnsupportedPattern(f"a {pattern.family} over one element or several axes")
    if pattern.operands[0].node.dtype == "float64":
        raise UnsupportedPattern(f"a {pattern.family} of float64")
    at = along[0]
    outer, inner = (" * ".join(f"n{i}" for i in part) for part in (range(at), range(at + 1, len(pattern.axes))))
    reads, kind = plan_reads(pattern.operands), pattern.main_nodes[0].name
    variables = {
        "kind": kind, "T": reads[0].kind, "outer": outer or "1", "n": f"n{at}", "inner": inner or "1", "strided": bool(inner),
        "has_math": False,
        "start": STARTS.get(kind, ""), "sign": SIGNS.get(kind, ""),
        "f": FunctionCall("body", (CallArgument("full", "from", ""),)),
        "onto": FunctionCall("body", (CallArgument("full", "before", ""), CallArgument("full", "from", ""))),
    }  # fmt: skip
    return PatternDescription(
        (*tensor_arguments(reads), *extent_arguments(pattern.axes)), variables, frozenset({"strided" if inner else "inner"})
    )
