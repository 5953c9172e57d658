"""What a kernel does, apart from how fast it is: what bounds it, how much memory it moves, and what its instructions are."""

from __future__ import annotations

import re
from math import floor, log2
from typing import NamedTuple

from evokernel.core.code_text import strip_comments
from evokernel.core.records import Attempt, Profile

TRAFFIC_FIGURES = {
    "hbm_mb": 1e6,
    "dram_read_bytes": 1.0,
    "dram_written_bytes": 1.0,
    "GM_to_UB_datas(KB)": 1024.0,
    "UB_to_GM_datas(KB)": 1024.0,
}
"""Figures of profiles that count the bytes a kernel moved, with their units in bytes."""
MATRIX_UNIT = re.compile(r"mmad|matmul|\bw?mma\b|\bdot(?:_general)?\b|\beinsum\b", re.IGNORECASE)
EXPLICIT_VECTORS = re.compile(
    r"\b_mm\d*_|\b__m\d+|\bvector_size\b|\bsimd|\bvec\w*\b|\bfloat[248]\b|LocalTensor|\bjnp\.|\btl\.", re.IGNORECASE
)
MEMORY_ACCESS = re.compile(r"\w\[|load|store|copy|gather", re.IGNORECASE)
ARITHMETIC = re.compile(r"[-+*/]|\b(?:fma|exp|log|tanh|sqrt|rsqrt|erf|max|min|add|sub|mul|div|muls|adds)\w*\s*\(", re.IGNORECASE)
BRANCH = re.compile(r"\b(?:for|while|if|fori_loop|when|cond|where|select)\b|\?")
"""Tokens by which the code of any backend shows its units and its classes of instructions."""


class Behaviour(NamedTuple):
    """A cell of an archive: kernels in one cell are alike, so that only their speed distinguishes them."""

    bottleneck: str
    """As in `Profile.bottleneck`; empty if the kernel has no profile."""
    traffic: int | None
    """Bytes moved, rounded down to a power of two, as its exponent; None if the profile does not report them."""
    unit: str
    """The most specialised unit that the code names: `matrix`, `vector` or `scalar`."""
    balance: int
    """Memory accesses per arithmetic operation in the code, rounded to a power of two, as its exponent."""
    size: int
    """Memory accesses, arithmetic operations and branches in the code, rounded to a power of two, as its exponent."""


def describe_behaviour(attempt: Attempt) -> Behaviour:
    """Return the behaviour of a kernel, from its profile and its code."""
    profile, code = attempt.outcome.profile, strip_comments(attempt.candidate.code)
    accesses, operations, branches = (len(pattern.findall(code)) for pattern in (MEMORY_ACCESS, ARITHMETIC, BRANCH))
    return Behaviour(
        bottleneck=profile.bottleneck if profile else "",
        traffic=traffic_octave(profile),
        unit=find_unit(code),
        balance=round(log2((accesses + 1) / (operations + 1))),
        size=round(log2(accesses + operations + branches + 1)),
    )


def traffic_octave(profile: Profile | None) -> int | None:
    """Return the largest power of two, as its exponent, that the bytes moved reach; None if no figure counts them."""
    figures = profile.figures if profile else {}
    moved_bytes = sum(figures[name] * unit for name, unit in TRAFFIC_FIGURES.items() if name in figures)
    return floor(log2(moved_bytes)) if moved_bytes > 0 else None


def find_unit(code: str) -> str:
    """Return the most specialised unit that code without comments names."""
    return "matrix" if MATRIX_UNIT.search(code) else "vector" if EXPLICIT_VECTORS.search(code) else "scalar"
