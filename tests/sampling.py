"""Some of many equal cases whenever tests are run; all of them with `-m ""`."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_in(count: int, cases: Iterable[Any], name: Callable[[Any], str] | None = None) -> list[Any]:
    """Every `count`-th case as it is, the others marked as slow."""
    found = []
    for number, case in enumerate(cases):
        values = case if type(case) is tuple else (case,)
        marks = [pytest.mark.slow] if number % count else []
        found.append(pytest.param(*values, id=name(case) if name else None, marks=marks))
    return found
