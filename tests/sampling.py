"""Selects some of many similar cases for the default test run. The choice follows from the commit; `--sample all` runs every case."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

EVERYTHING = "all"
"""The value of `--sample` that leaves nothing out."""
SLOW_ONE_IN = 8
"""By default, one of this many tests marked slow runs; `slow(one_in=5)` changes it for a test."""


def one_in(count: int, cases: Iterable[Any], name: Callable[[Any], str] | None = None, group: str = "") -> list[Any]:
    """Return pytest parameters for all cases, of which one in `count` (at least one) runs by default; see `mark_sampled` for groups."""
    cases = list(cases)
    return [
        pytest.param(
            *(case if type(case) is tuple else (case,)),
            id=name(case) if name else None,
            marks=mark_sampled(number, len(cases), count, group),
        )
        for number, case in enumerate(cases)
    ]


def mark_sampled(number: int, total: int, count: int, group: str = "") -> pytest.MarkDecorator:
    """Mark a case as the `number`-th of `total`, of which one in `count` (at least one) runs by default.

    The choice is made once per group, by default once per test function. Cases that share something expensive get the same number.
    """
    return pytest.mark.sampled(number=number, total=total, count=count, group=group)


def is_chosen(item: pytest.Item, sample: str) -> bool:
    """Whether a test belongs to a sample, which depends on nothing but the test's own name and marks."""
    if sample == EVERYTHING:
        return True
    test = item.nodeid.partition("[")[0]
    slow = (
        Random(f"{sample}/{mark.kwargs.get('group', item.nodeid)}").randrange(mark.kwargs.get("one_in", SLOW_ONE_IN))
        for mark in item.iter_markers("slow")
    )
    sampled = (mark.kwargs["number"] in choose_numbers(sample, test, **mark.kwargs) for mark in item.iter_markers("sampled"))
    return not any(slow) and all(sampled)


def choose_numbers(sample: str, test: str, total: int, count: int, group: str, **_: int) -> list[int]:
    """Return the numbers of the cases of one group that are in a sample."""
    return Random(f"{sample}/{group or test}").sample(range(total), -(-total // count))
