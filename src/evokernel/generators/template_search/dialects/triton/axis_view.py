"""A tensor seen along one axis: the extents before the axis, along it and after it."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.triton.emit import require_float32
from evokernel.generators.template_search.graph import Num, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums


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
