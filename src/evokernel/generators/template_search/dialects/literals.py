"""What numbers and steps have in common in every dialect: signs, and expressions over the kernel's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Num

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
"""Steps written between their two arguments."""


def spelled(num: Num, words: Mapping[str, str], literal: Callable[[float, bool], str]) -> str:
    """A number where the kernel's arguments are known; `words` has a pattern for `extent` and for each kind of arithmetic."""
    if num.op == "literal":
        return literal(num.value, num.integer)
    if num.op == "scalar":
        return f"arg_{num.name}"
    if num.op == "extent":
        return words["extent"].format(num.name, num.axis)
    return words[num.op].format(*(spelled(arg, words, literal) for arg in num.args))
