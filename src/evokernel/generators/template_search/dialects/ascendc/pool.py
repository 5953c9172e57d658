"""Pooling over one to three axes: the rows of a window are combined first, then its columns."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import BANKS, DEPTH, RELEASE, SHARE, STAGING, TAIL
from evokernel.generators.template_search.graph import Num, UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, multiply_nums

AXES = ("d", "h", "w")


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a pooling by its window and kind; absent leading axes have extent 1."""
    (x,), main = pattern.tensors, pattern.main_nodes[0]
    rank = len(x.shape) - 2
    if pattern.epilogue is not None or x.dtype != "float32" or main.name not in ("max", "mean") or rank > len(AXES):
        raise UnsupportedPattern("a pooling before an expression, or of other than float32")
    kinds = {kind: pattern.numbers[i * rank : (i + 1) * rank] for i, kind in enumerate("kspd")}
    counts = main.name == "mean" and main.dims != (1,) and any(not n.is_literal or n.value for n in kinds["p"])
    arguments = [StageArgument("x0", x), StageArgument("planes", multiply_nums(x.shape[:2]))]
    one, zero = (Num.of(1),) * (len(AXES) - rank), (Num.of(0),) * (len(AXES) - rank)
    for kind, nums in (("n", x.shape[2:]), ("o", pattern.root.shape[2:]), *kinds.items()):
        arguments += [StageArgument(f"{kind}{axis}", n) for axis, n in zip(AXES, (*(zero if kind == "p" else one), *nums))]
    is_max = main.name == "max"
    variables = {"is_max": is_max, "call": "Max" if is_max else "Add", "start": "-INF" if is_max else "0.0f", "counts": counts}
    return PatternDescription(tuple(arguments), variables)


template = KernelTemplate(
    decisions=(Decision("across", ("scalar", "gather", "slices")), STAGING, DEPTH, RELEASE, TAIL, SHARE, BANKS), describe=describe
)
"""`across`: the columns of a window one by one, gathered by offset, or as slices that begin at each column."""
