"""Settings of windows (stride, padding, dilation) as Python source."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.generators.template_search.dialects.pallas.emit import format_num
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.kernel_template import StageArgument


def window_settings(numbers: Sequence[Num]) -> tuple[list[str], list[StageArgument]]:
    """Numbers as Python source, literals or names, and the arguments for those that are names."""
    texts = [format_num(n) if n.is_literal else f"setting{i}" for i, n in enumerate(numbers)]
    return texts, [StageArgument(f"setting{i}", n) for i, n in enumerate(numbers) if not n.is_literal]


def format_tuples(texts: Sequence[str], rank: int) -> list[str]:
    """Settings as Python tuples, one number per spatial axis."""
    return [f"({', '.join(texts[i : i + rank])}{',' if rank == 1 else ''})" for i in range(0, len(texts), rank)]
