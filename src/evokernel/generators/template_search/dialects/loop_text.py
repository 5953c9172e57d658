"""The loops of an iteration space: their extents as arguments, and indices as text of C-like languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.kernel_template import StageArgument
from evokernel.generators.template_search.patterns import Axis


def extent_arguments(axes: Sequence[Axis]) -> tuple[StageArgument, ...]:
    """The extents of loops as arguments `n0`, `n1`, ..."""
    return tuple(StageArgument(f"n{i}", axis.extent) for i, axis in enumerate(axes))


def number_arguments(names: Mapping[Num, str]) -> tuple[StageArgument, ...]:
    """The named numbers of elementwise steps as arguments."""
    return tuple(StageArgument(name, number) for number, name in names.items())


def flat_index(axes: Sequence[int]) -> str:
    """The flat index over some loops: ((i0 * n1 + i1) * n2 + i2)."""
    text = ""
    for i in axes:
        text = f"({text} * n{i} + i{i})" if text else f"i{i}"
    return text or "0"
