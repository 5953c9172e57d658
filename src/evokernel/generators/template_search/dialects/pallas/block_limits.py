"""How blocks are measured: extents at bench size, and numbers among options."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from evokernel.generators.template_search.graph import Num

STEPS = 4
"""Grid steps that overlap copies with work."""


def extent_of(numbers: Sequence[Num]) -> int:
    """The product of some extents at bench size."""
    return int(prod(n.value for n in numbers))


def largest_option(options: Sequence[str], limit: float) -> str:
    """The largest number among the options that does not exceed a limit, or else the smallest one."""
    numbers = sorted(int(o) for o in options if o.isdigit())
    return str(max((n for n in numbers if n <= limit), default=numbers[0])) if numbers else ""
