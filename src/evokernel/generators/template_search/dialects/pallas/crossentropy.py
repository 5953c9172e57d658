"""Cross entropy of logits and classes: each row's loss and their sum in one pass."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import IN_LANES, LIMIT, ROWS, SEMANTICS, TURN, is_transposed
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a cross entropy by logits, classes and reduction."""
    logits, classes = pattern.tensors
    if logits.dtype != "float32" or not classes.dtype.startswith("int"):
        raise UnsupportedPattern(f"a cross entropy of {logits.dtype} logits and {classes.dtype} classes")
    return PatternDescription((StageArgument("x", logits), StageArgument("target", classes)), {"kind": pattern.main_nodes[0].name})


template = KernelTemplate(
    decisions=(
        TURN,
        ROWS._replace(when=lambda choice: not is_transposed(choice)),
        IN_LANES._replace(when=is_transposed),
        Decision("pick", ("select", "product")),
        Decision("edge", ("mask", "pad", "none")),
        Decision("sums", ("inside", "outside")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
