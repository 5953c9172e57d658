"""Data movement: permuted, sliced, flipped, expanded or concatenated tensors."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.axis_walks import concatenation_arguments, describe_movement, require_plain_movement
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, ORDER, SIMD, THREADS, is_row_order
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    root = pattern.root
    require_plain_movement(root)
    if root.op == "cat":
        return PatternDescription(concatenation_arguments(root), {"parts": tuple(range(len(root.args)))}, frozenset({"run", "cat"}))
    movement = describe_movement(root)
    strides, last, contiguous = movement.strides, movement.last, movement.contiguous
    variables = {
        "strides": strides, "base": movement.base, "last": last, "near": contiguous, "is_run": contiguous == last, "parts": (),
        "outside": [i for i in range(last + 1) if i not in (contiguous, last)], "runs": strides[last] == "1",
    }  # fmt: skip
    return PatternDescription(
        movement.arguments, variables, frozenset({"run" if strides[last] == "1" else "turned" if contiguous != last else "apart"})
    )


def is_element_loop(choice: Choice) -> bool:
    """Whether a loop copies elements one by one in memory order."""
    return is_row_order(choice) and choice.get("algorithm") != "memcpy"


template = KernelTemplate(
    decisions=(
        ORDER._replace(excluded_by="apart"),
        Decision("algorithm", ("memcpy", "loop"), is_row_order, trait="run"),
        Decision("algorithm", ("plain", "tiled"), is_row_order, trait="turned"),
        Decision("tile", ("8", "16", "32", "64"), one_of("algorithm", "tiled")),
        SIMD._replace(options=("auto", "omp"), when=is_element_loop),
        ALIAS,
        INDEX._replace(when=is_element_loop),
        THREADS,
    ),
    describe=describe,
)
