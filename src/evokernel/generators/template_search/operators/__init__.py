"""Lowerings of PyTorch operators to graph nodes: one module per kind, each with a TABLE from operator names to functions.

A function takes the operator's arguments in order: nodes, `Num`s, tuples of these, booleans, strings and None. It raises
UnsupportedPattern for arguments it cannot express. To add an operator, add an entry to a table; new modules in this folder are found
automatically.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

Lowering = Callable[..., object]


@cache
def load_lowerings() -> Mapping[str, Lowering]:
    """All lowerings by operator name: `softmax` covers all its overloads, `max.dim` only that one."""
    table: dict[str, Lowering] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        table |= importlib.import_module(f"{__name__}.{module}").TABLE
    return table
