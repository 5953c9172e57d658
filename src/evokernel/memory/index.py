"""Exact search in memory: integer vectors, so that a similarity is the same number however and wherever it is computed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from evokernel.core.records import MemoryItem, MemoryKind

# Unit vectors are rounded to multiples of 1 / GRAIN. Every partial sum of a product of two of them is then an integer below 2**24
# (Cauchy-Schwarz), which float32 holds exactly: no order of summation, BLAS or machine can change a tie.
GRAIN = 2048
KINDS: tuple[MemoryKind, ...] = ("api", "practice", "experience", "trace")
CACHED = 1 << 23  # cosines kept for queries that come again: 64 MiB


def grid(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors as the integers that are stored."""
    return np.rint(np.asarray(vectors, np.float32) * GRAIN).astype("<i2")


class Vectors:
    """Different vectors on the grid, by number, and the cosines of queries with them."""

    def __init__(self, dim: int) -> None:
        self._held = np.zeros((64, dim), np.float32)
        self._norms = np.ones(64)
        self._slots: dict[bytes, int] = {}
        self._dots: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def put(self, vector: np.ndarray) -> int:
        """The number of a vector."""
        key = vector.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._slots)
            if slot >= len(self._held):
                self._held = np.concatenate([self._held, np.zeros_like(self._held)])
                self._norms = np.concatenate([self._norms, np.ones_like(self._norms)])
            self._held[slot] = vector
            self._norms[slot] = norm(vector)
        return slot

    def cosines(self, query: np.ndarray) -> np.ndarray:
        """Of the query with every vector; only those that are new since it was last asked are multiplied."""
        key, count = query.tobytes(), len(self._slots)
        known = self._dots.pop(key, np.zeros(0))
        if len(known) < count:
            new = slice(len(known), count)
            known = np.concatenate([known, cosines(self._held[new], self._norms[new], query)])
        self._dots[key] = known
        while len(self._dots) > max(1, CACHED // max(1, count)):
            self._dots.popitem(last=False)
        return known


class Index:
    """Rows in the order they were added; rows with equal vectors (attempts on one task share their key) share one."""

    def __init__(self, dim: int) -> None:
        self.dim, self.rows = dim, 0
        self._vectors = Vectors(dim)
        # Per row: slot, kind, feasible (-1 for None), task, bottleneck.
        self._columns = np.zeros((64, 5), np.int32, order="F")
        self._words: dict[str, int] = {"": 0}

    def put(self, row: int | None, item: MemoryItem, vector: np.ndarray) -> int:
        """Sets a row, or appends one when `row` is None; gives its number."""
        if row is None:
            row, self.rows = self.rows, self.rows + 1
            if self.rows > len(self._columns):
                self._columns = np.asfortranarray(np.concatenate([self._columns, np.zeros_like(self._columns)]))
        feasible = -1 if item.feasible is None else int(item.feasible)
        task, bottleneck = (self._words.setdefault(word, len(self._words)) for word in (item.task or "", item.bottleneck))
        self._columns[row] = (self._vectors.put(vector), KINDS.index(item.kind), feasible, task, bottleneck)
        return row

    def nearest(
        self, query: np.ndarray, k: int, kinds: Sequence[MemoryKind], task: str | None, bottleneck: str | None, feasible: bool | None
    ) -> list[tuple[int, float]]:
        """Rows that pass the filters with their cosine, nearest first, older first among equals."""
        columns = self._columns[: self.rows]
        keep = np.ones(self.rows, bool)
        if kinds:
            wanted = np.zeros(len(KINDS), bool)
            wanted[[KINDS.index(kind) for kind in kinds]] = True
            keep &= wanted[columns[:, 1]]
        if feasible is not None:
            keep &= columns[:, 2] == int(feasible)
        for column, word in ((3, task), (4, bottleneck)):
            if word is not None:
                keep &= columns[:, column] == self._words.get(word, -1)
        rows = np.flatnonzero(keep)
        if k <= 0 or not len(rows):
            return []
        near = self._vectors.cosines(query).take(columns[:, 0].take(rows))
        if len(rows) > k:
            best = near >= np.partition(near, len(near) - k)[len(near) - k]
            rows, near = rows[best], near[best]
        order = np.lexsort((rows, -near))[:k]
        return list(zip(rows[order].tolist(), near[order].tolist(), strict=True))


def cosines(vectors: np.ndarray, norms: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Of a query with float32 vectors on the grid."""
    # Not BLAS: its threads wait for cores that are busy compiling kernels, and cost more than they save at this size.
    dots = np.einsum("ij,j->i", vectors, query.astype(np.float32))
    found: np.ndarray = dots / (norms * norm(query))
    return found


def norm(vector: np.ndarray) -> float:
    """Length of an integer vector, never zero."""
    wide = vector.astype(np.int64)
    return max(float(np.sqrt(float(wide @ wide))), 1.0)
