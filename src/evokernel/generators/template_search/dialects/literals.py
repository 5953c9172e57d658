"""Numbers and operators that are spelled alike in every dialect: infix signs, and expressions over the kernel's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Num

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
"""Steps written between their two arguments."""


def format_number(num: Num, formats: Mapping[str, str], format_literal: Callable[[float, bool], str]) -> str:
    """A number as an expression over the kernel's arguments; `formats` has a format for `extent` and for each kind of arithmetic."""
    if num.op == "literal":
        return format_literal(num.value, num.is_integer)
    if num.op == "scalar":
        return f"arg_{num.name}"
    if num.op == "extent":
        return formats["extent"].format(num.name, num.axis)
    return formats[num.op].format(*(format_number(arg, formats, format_literal) for arg in num.args))
