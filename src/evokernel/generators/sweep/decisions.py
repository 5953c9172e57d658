"""What a sketch leaves open: decisions with their options, and when each question arises. No option is marked as better than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

Choice = Mapping[str, str]
Facts = Mapping[str, object]


class Decision(NamedTuple):
    """Something a sketch leaves open; `when` and `trait` say where the question arises at all."""

    name: str
    options: tuple[str, ...]
    when: Callable[[Choice], bool] = lambda taken: True
    trait: str = ""
    without: str = ""


@dataclass(frozen=True)
class Operator:
    """A sketch by name, what it is rendered with, the traits its decisions depend on, and all decisions of the sketch."""

    sketch: str
    facts: Facts
    traits: frozenset[str]
    decisions: tuple[Decision, ...]


def one_of(name: str, *options: str) -> Callable[[Choice], bool]:
    """When another decision was taken in one of these ways."""
    return lambda taken: taken.get(name) in options


def open_decisions(operator: Operator) -> tuple[Decision, ...]:
    """The decisions of an operator's sketch that its traits leave open."""
    return tuple(
        d for d in operator.decisions if (not d.trait or d.trait in operator.traits) and (not d.without or d.without not in operator.traits)
    )


def line_of(operator: Operator, taken: Choice) -> str:
    """The decisions in one line, as the code carries them."""
    return " ".join([operator.sketch, *(f"{name}={option}" for name, option in taken.items())])
