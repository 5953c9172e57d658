"""Data movement: permuted, sliced, flipped, expanded or concatenated tensors."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.axis_walks import describe_move
from evokernel.generators.template_search.dialects.blocks import split_position
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    return describe_move(pattern.root, split_position)


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("plain", "tiled"), trait="turned"),
        Decision("tile", ("16", "32", "64", "128"), one_of("algorithm", "tiled")),
        BLOCK._replace(when=lambda choice: choice.get("algorithm") != "tiled"),
        WARPS,
    ),
    describe=describe,
)
