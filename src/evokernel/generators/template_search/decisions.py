"""What a sketch leaves open: decisions with their options, and when each question arises. No option is marked as better than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Choice = Mapping[str, str]


class Decision(NamedTuple):
    """Something a sketch leaves open; `when` and `trait` say where the question arises at all."""

    name: str
    options: tuple[str, ...]
    when: Callable[[Choice], bool] = lambda taken: True
    trait: str = ""
    without: str = ""


def one_of(name: str, *options: str) -> Callable[[Choice], bool]:
    """When another decision was taken in one of these ways."""
    return lambda taken: taken.get(name) in options
