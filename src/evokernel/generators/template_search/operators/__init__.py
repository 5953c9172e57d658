"""PyTorch's operators in terms of nodes: one module per kind, each with a TABLE from names to functions.

A function takes what the operator takes, in its order: nodes, `Num`s, tuples of these, booleans, text and None. What it cannot express
raises NoSketch. A new operator is an entry in a table; a new module in this folder is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

Lowering = Callable[..., object]


@cache
def lowerings() -> Mapping[str, Lowering]:
    """Every operator that is understood, by name: `softmax` for all its overloads, `max.dim` for that one alone."""
    found: dict[str, Lowering] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        found |= importlib.import_module(f"{__name__}.{module}").TABLE
    return found
