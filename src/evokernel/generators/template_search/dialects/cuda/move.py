"""Data movement: permuted, sliced, flipped, expanded or concatenated tensors."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.axis_walks import describe_move
from evokernel.generators.template_search.dialects.cuda.common_decisions import THREADS
from evokernel.generators.template_search.dialects.cuda.packs import NARROW, position_lines
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    description = describe_move(pattern.root, position_lines)
    source = " * ".join(g.name for g in description.arguments if g.name.startswith("m")) or "0"
    return replace(description, variables={**description.variables, "narrow": f"{source} < {NARROW}"})


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("plain", "tiled"), trait="turned"),
        Decision("tile", ("16", "32", "64"), one_of("algorithm", "tiled")),
        THREADS,
    ),
    describe=describe,
)
"""`tiled` transposes squares of elements in shared memory, so that reads and writes are both coalesced."""
