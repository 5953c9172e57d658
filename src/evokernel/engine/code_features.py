"""Features of a kernel for a forecast: hashed n-grams of its code, by themselves, with the task's families and with the profile.

They need no compiler and no parser, work for every language, and are equal in every process and on every machine.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from evokernel.core.code_text import TOKEN
from evokernel.core.records import Attempt, Candidate, Task

DIMENSIONS = 2048
MAX_TOKENS = 8000
"""Tokens of a kernel that are read; a longer file is cut."""
FAMILY_WEIGHT, CHANGE_WEIGHT = 0.5, 0.5
"""Weights of a token together with an operator family, and of a changed token together with the start point's bottleneck."""


def extract_features(task: Task, candidate: Candidate, start: Attempt | None = None) -> np.ndarray:
    """Return the feature vector of a kernel; `start` is the kernel that it refines. Comments count: they name what an author chose."""
    tokens = TOKEN.findall(candidate.code)[:MAX_TOKENS]
    counts = Counter(join_ngrams(tokens))
    row = np.zeros(DIMENSIONS)
    add_hashed(row, counts, 1.0)
    words = Counter({token: count for token, count in Counter(tokens).items() if token[0].isalnum()})
    for family in dict.fromkeys(task.families or (task.family,)):
        add_hashed(row, {f"{family}|{word}": count for word, count in words.items()}, FAMILY_WEIGHT)
    if start:
        bottleneck = start.outcome.profile.bottleneck if start.outcome.profile else ""
        earlier = set(TOKEN.findall(start.candidate.code)[:MAX_TOKENS])
        changes = {f"{bottleneck}|+{word}": 1 for word in words if word not in earlier}
        changes |= {f"{bottleneck}|-{word}": 1 for word in earlier - set(tokens)}
        add_hashed(row, changes, CHANGE_WEIGHT)
    return row


def join_ngrams(tokens: list[str]) -> Iterable[str]:
    """Yield the tokens, and all sequences of two and of three."""
    yield from tokens
    yield from (f"{a} {b}" for a, b in pairwise(tokens))
    yield from (f"{a} {b} {c}" for a, b, c in zip(tokens, tokens[1:], tokens[2:]))


def add_hashed(row: np.ndarray, counts: dict[str, int], weight: float) -> None:
    """Add the logarithm of each count to the bucket and with the sign that the hash of its text gives."""
    hashes = np.array([zlib.crc32(text.encode()) for text in counts], np.int64)
    values = weight * np.log1p(np.array(list(counts.values()), np.float64))
    signs = np.where(hashes >> 31, -1.0, 1.0)
    row += np.bincount(hashes % DIMENSIONS, values * signs, DIMENSIONS) if len(hashes) else 0.0


def describe_size(task: Task) -> np.ndarray:
    """Return what is known about a task's latency before any kernel: the logarithms of its memory traffic and of its operations."""
    return np.array([np.log1p(task.work.bytes), np.log1p(task.work.flops), np.log1p(task.work.reduction_length)])
