"""Data movement: rows that are copied, or, where neighbouring elements of the result are apart in the source, gathered in local memory."""

from __future__ import annotations

import re

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.ascendc.common_decisions import SHARE, TILE
from evokernel.generators.template_search.dialects.axis_walks import concatenation_arguments, describe_movement, require_plain_movement
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, TemplateVariables
from evokernel.generators.template_search.patterns import KernelPattern

ELEMENTS = {"float32": "float", "int32": "float", "float16": "half", "bfloat16": "half", "bool": "uint8_t", "uint8": "uint8_t",
            "int8": "uint8_t", "int64": "float"}  # fmt: skip
"""The type that elements are copied as: their bits stay as they are. An int64 is two elements."""
SIZES = {"float": 4, "half": 2, "uint8_t": 1}


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement by the loops over the result with their strides in the source; a concatenation by its widths."""
    root = pattern.root
    require_plain_movement(root)
    if root.dtype not in ELEMENTS:
        raise UnsupportedPattern(f"a movement of {root.dtype}")
    T, words = ELEMENTS[root.dtype], 2 if root.dtype == "int64" else 1
    common: TemplateVariables = {"T": T, "size": SIZES[T], "words": words}
    if root.op == "cat":
        return PatternDescription(concatenation_arguments(root), {**common, "way": "cat", "parts": tuple(range(len(root.args)))})
    movement = describe_movement(root)
    strides, last, near = movement.strides, movement.last, movement.contiguous
    if strides[last] == "1":
        way = "rows"
    elif strides[last] == "0":
        way = "fill"
    elif words > 1 or T == "uint8_t":
        way = "single"
    else:
        way = "turned" if near != last else "apart"
    if way in ("fill", "single") and (words > 1 or T == "uint8_t") and (way == "fill" or "-1" in strides[last]):
        raise UnsupportedPattern(f"a movement of {root.dtype} in this order")
    row = near if way == "turned" else last - 1
    variables = {
        **common, "way": way, "strides": [as_signed(s) for s in strides], "base": as_signed(movement.base), "last": last, "row": row,
        "outside": [i for i in range(last) if i != row], "reversed": strides[last].startswith("-1"),
    }  # fmt: skip
    return PatternDescription(movement.arguments, variables, frozenset())


def as_signed(text: str) -> str:
    """An expression over the unsigned arguments of a stage, computed with signed numbers."""
    return re.sub(r"\b(m\d+|start|step)\b", r"static_cast<int64_t>(\1)", text)


template = KernelTemplate(decisions=(TILE, Decision("depth", ("1", "2", "4")), SHARE), describe=describe)
