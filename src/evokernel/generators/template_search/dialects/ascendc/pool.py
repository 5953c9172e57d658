"""Pooling over one to three axes: the rows of a window are combined first, then its columns."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
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
    variables["is_flat"] = rank < len(AXES)
    variables["padded"] = any(not n.is_literal or n.value for n in kinds["p"])
    return PatternDescription(tuple(arguments), variables, frozenset({"counts"} if counts else ()))


def is_by_row(choice: Choice) -> bool:
    """Whether each row of the result is computed for itself."""
    return choice.get("across") != "block"


template = KernelTemplate(
    decisions=(
        Decision("across", ("scalar", "gather", "slices", "block"), excluded_by="counts"),
        Decision("across", ("scalar", "gather", "slices"), trait="counts"),
        STAGING._replace(when=is_by_row), DEPTH, RELEASE, TAIL._replace(when=is_by_row), SHARE._replace(when=is_by_row),
        BANKS._replace(when=is_by_row),
    ),
    describe=describe,
)  # fmt: skip
"""`across`: the columns of a window one by one, gathered by offset, or as slices that begin at each column; or several rows at once."""
