"""Cross entropy: the mean or sum over rows of -log softmax at each row's class."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import (
    PREFETCH,
    REDUCE,
    ROW_COMMON,
    ROWS_ALWAYS,
    SPLIT,
    TILES,
    unless_together,
)
from evokernel.generators.template_search.dialects.ascendc.emit import reduction_lines
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern

MAX_ROW = 11000
"""Classes up to which a complete row fits into every buffer."""
MAX_TOGETHER, MAX_OWN, FEWEST_CORES = 2816, 1024, 40
"""Classes up to which several rows fit, rows that a block can process together, and vector cores of the smallest chip."""


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a cross entropy by its sizes and its reduction."""
    logits, classes = pattern.tensors
    if logits.dtype != "float32" or classes.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"a cross entropy of {logits.dtype} with {classes.dtype} classes")
    rows, n = logits.shape
    arguments = (StageArgument("x0", logits), StageArgument("classes", classes), StageArgument("rows", rows), StageArgument("count", n))
    variables: dict[str, object] = {
        "mean": pattern.main_nodes[0].name == "mean",
        "step": 2 if classes.dtype == "int64" else 1,
        "fold": reduction_lines,
        "partials": True,
    }
    is_long = max(n.values) > MAX_ROW
    variables["long"] = is_long
    traits = {"single", "reduce", *(() if is_long else ("rows", "tiled"))}
    if max(n.values) <= MAX_TOGETHER and max(rows.values) <= MAX_OWN * FEWEST_CORES:
        traits.add("together")
    return PatternDescription(arguments, variables, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("whole", "together"), trait="together"), TILES,
        *unless_together(SPLIT, Decision("shift", ("max", "none")), REDUCE, ROWS_ALWAYS), *ROW_COMMON, PREFETCH,
    ),
    describe=describe,
)  # fmt: skip
"""`algorithm`: row by row, or several rows in each instruction.

`shift`: whether the maximum of a row is subtracted before the exponential.
"""
