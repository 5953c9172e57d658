"""Settings of windows as Python text."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.generators.template_search.dialects.pallas.emit import number
from evokernel.generators.template_search.graph import Num
from evokernel.generators.template_search.sketch import Given


def settings(numbers: Sequence[Num]) -> tuple[list[str], list[Given]]:
    """Numbers as the text writes them: literals as such, others under a name they are passed by."""
    texts = [number(n) if n.is_literal else f"setting{i}" for i, n in enumerate(numbers)]
    return texts, [Given(f"setting{i}", n) for i, n in enumerate(numbers) if not n.is_literal]


def tuples(texts: Sequence[str], rank: int) -> list[str]:
    """Settings as Python tuples, one number per spatial axis."""
    return [f"({', '.join(texts[i : i + rank])}{',' if rank == 1 else ''})" for i in range(0, len(texts), rank)]
