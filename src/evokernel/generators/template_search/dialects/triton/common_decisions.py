"""Decisions that many Triton templates share."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision

WARPS = Decision("warps", ("1", "2", "4", "8", "16"))
BLOCK = Decision("block", ("128", "256", "512", "1024", "2048", "4096"))
"""Elements per program."""
STAGES = Decision("stages", ("1", "2", "3", "4", "5"))
"""How many iterations of a loop are loaded ahead."""
PRECISION = Decision("precision", ("ieee", "tf32x3", "tf32"), trait="float32")
"""How products of float32 are computed; tf32 has too few bits for the verifier's tolerance."""
