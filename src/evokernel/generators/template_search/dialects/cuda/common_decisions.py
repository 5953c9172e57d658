"""Decisions that many CUDA templates share."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision

THREADS = Decision("threads", ("64", "128", "256", "512", "1024"))
"""Threads per block, unless a row has more of them."""
VECTOR = Decision("vector", ("1", "2", "4", "8"))
"""Elements that a thread loads at once."""
MATH = Decision("math", ("exact", "fast"), trait="math")
"""Functions of the library, or intrinsics with fewer correct bits."""


def row_team(trait: str = "") -> Decision:
    """How many neighbouring threads work on a row whose elements are neighbours."""
    return Decision("team", ("4", "8", "16", "32", "64", "128", "256", "512", "1024"), trait=trait)


COLUMN_TEAM = Decision("team", ("1", "2", "4", "8", "16", "32"), trait="strided")
"""How many threads work on a row if the same elements of neighbouring rows are neighbours."""
TEAM_DECISIONS = (row_team("inner"), COLUMN_TEAM, THREADS, VECTOR._replace(trait="inner"))
