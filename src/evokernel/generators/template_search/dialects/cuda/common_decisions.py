"""Decisions that many CUDA templates share."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision

THREADS = Decision("threads", ("64", "128", "256", "512", "1024"))
"""Threads per block, unless a row has more of them."""
VECTOR = Decision("vector", ("1", "2", "4", "8"))
"""Elements that a thread loads at once."""
MATH = Decision("math", ("exact", "fast"), trait="math")
"""Functions of the library, or intrinsics with fewer correct bits."""
