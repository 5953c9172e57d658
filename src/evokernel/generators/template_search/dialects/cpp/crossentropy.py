"""Cross entropy: the mean or sum over rows of -log softmax at each row's class."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ORDER, ROW_DECISIONS, is_row_order
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a cross entropy by its sizes and its reduction."""
    logits, classes = pattern.tensors
    if logits.dtype != "float32" or classes.dtype not in ("int64", "int32"):
        raise UnsupportedPattern(f"a cross entropy of {logits.dtype} with {classes.dtype} classes")
    rows, n = logits.shape
    arguments = (StageArgument("x", logits), StageArgument("y", classes), StageArgument("rows", rows), StageArgument("n", n))
    return PatternDescription(arguments, {"kind": pattern.main_nodes[0].name, "has_math": True}, frozenset({"math"}))


template = KernelTemplate(
    decisions=(
        ORDER,
        Decision("algorithm", ("passes", "online"), is_row_order),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online")),
        *ROW_DECISIONS,
    ),
    describe=describe,
)
