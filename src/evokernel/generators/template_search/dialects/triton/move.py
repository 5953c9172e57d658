"""Data movement: permuted, sliced, flipped, expanded or concatenated tensors."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.axis_walks import concatenation_arguments, describe_movement, require_plain_movement
from evokernel.generators.template_search.dialects.blocks import split_position
from evokernel.generators.template_search.dialects.triton.common_decisions import BLOCK, WARPS
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    root = pattern.root
    require_plain_movement(root)
    if root.op == "cat":
        return PatternDescription(concatenation_arguments(root), {"parts": tuple(range(len(root.args)))}, frozenset({"cat"}))
    movement = describe_movement(root)
    loops, last, near = tuple(range(len(movement.walks))), movement.last, movement.contiguous
    source = " + ".join([movement.base, *(f"i{i} * ({stride})" for i, stride in enumerate(movement.strides))])
    outside = tuple(i for i in loops if i not in (near, last))
    flat = " + ".join(f"i{i} * ({' * '.join(f'n{j}' for j in loops[i + 1 :]) or '1'})" for i in loops)
    variables = {
        "parts": (), "source": source, "flat": flat, "near": near, "last": last,
        "row_lines": split_position("k", loops, source), "outside_lines": split_position("o", outside, source + flat),
        "outside": " * ".join(f"n{i}" for i in outside) or "1", "count": " * ".join(f"n{i}" for i in loops),
    }  # fmt: skip
    return PatternDescription(movement.arguments, variables, frozenset({"turned"} if near != last else ()))


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("plain", "tiled"), trait="turned"),
        Decision("tile", ("16", "32", "64", "128"), one_of("algorithm", "tiled")),
        BLOCK._replace(when=lambda choice: choice.get("algorithm") != "tiled"),
        WARPS,
    ),
    describe=describe,
)
