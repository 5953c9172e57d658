"""Rows of a table, selected by index: from a table in VMEM, or copied one by one from HBM."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, SEMANTICS
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a gather by its table and its indices."""
    table, index = pattern.tensors
    if table.dtype != "float32" or not index.dtype.startswith("int"):
        raise UnsupportedPattern(f"rows of a {table.dtype} table by {index.dtype}")
    return PatternDescription((StageArgument("table", table), StageArgument("index", index)), {})


template = KernelTemplate(
    decisions=(
        Decision("source", ("held", "copied")),
        Decision("rows", ("20", "64", "128", "256", "512")),
        Decision("lanes", ("all", "128", "apart"), one_of("source", "held")),
        Decision("buffers", ("1", "2"), one_of("source", "held")),
        Decision("store", ("row", "tile"), one_of("source", "held")),
        Decision("unroll", ("2", "4", "8")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
