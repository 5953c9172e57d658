"""Decisions: the tuning parameters of a template, with their options and the conditions under which they apply.

No option is marked as better than another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Choice = Mapping[str, str]
"""The option chosen for each decision, by the decision's name."""


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
