"""Decisions: the tuning parameters of a template, with their options and the conditions under which they apply.

No option is marked as better than another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Choice = Mapping[str, str]
"""The option chosen for each decision, by the decision's name."""


class NamedOption(str):
    """The name of a constant in place of an option that is a number."""

    value: int

    def __new__(cls, name: str, value: int) -> NamedOption:
        """Return the name with its number."""
        option = super().__new__(cls, name)
        option.value = value
        return option


class NamedNumber(int):
    """A number that is written as the name of a constant, or as arithmetic on it in parentheses; comparisons use the number."""

    name: str

    def __new__(cls, value: int, name: str) -> NamedNumber:
        """Return the number with its text."""
        number = super().__new__(cls, value)
        number.name = name
        return number

    def __str__(self) -> str:
        return self.name

    def __add__(self, other: int) -> NamedNumber:
        return NamedNumber(int(self) + other, f"({self} + {other})")

    def __sub__(self, other: int) -> NamedNumber:
        return NamedNumber(int(self) - other, f"({self} - {other})")

    def __mul__(self, other: int) -> NamedNumber:
        return NamedNumber(int(self) * other, f"({self} * {other})")

    def __floordiv__(self, other: int) -> NamedNumber:
        return NamedNumber(int(self) // other, f"({self} / {other})")


def to_int(option: str | int) -> int:
    """The filter `int` of templates: the number of an option."""
    if not isinstance(option, NamedOption):
        return int(option)
    return NamedNumber(option.value, str(option))


class Decision(NamedTuple):
    """A tuning parameter of a template."""

    name: str
    options: tuple[str, ...]
    when: Callable[[Choice], bool] = lambda choice: True
    """Whether the decision applies, given the earlier choices of the same stage."""
    trait: str = ""
    """The trait a pattern must have for the decision to apply; empty: any pattern."""
    excluded_by: str = ""
    """The trait with which the decision does not apply."""


def one_of(name: str, *options: str) -> Callable[[Choice], bool]:
    """A condition: another decision has one of these options."""
    return lambda choice: choice.get(name) in options
