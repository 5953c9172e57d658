"""Selects some of many similar cases for the default test run; `-m ""` runs all of them."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_in(count: int, cases: Iterable[Any], name: Callable[[Any], str] | None = None) -> list[Any]:
    """Return pytest parameters for all cases; only every `count`-th is not marked slow."""
    params = []
    for number, case in enumerate(cases):
        values = case if type(case) is tuple else (case,)
        marks = [pytest.mark.slow] if number % count else []
        params.append(pytest.param(*values, id=name(case) if name else None, marks=marks))
    return params
