"""Exact search in memory over integer vectors, so that a similarity is the same number on every machine and in every order of summation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from evokernel.core.records import MemoryItem, MemoryKind

# Unit vectors are rounded to multiples of 1 / GRID_STEPS. Every partial sum of a product of two of them is then an integer below 2**24
# (Cauchy-Schwarz), which float32 represents exactly: no order of summation, BLAS or machine can change a tie.
GRID_STEPS = 2048
KINDS: tuple[MemoryKind, ...] = ("api", "practice", "experience", "trace")
MAX_CACHED_COSINES = 1 << 23  # 64 MiB of similarities for repeated queries


def quantize_vectors(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors as the 16-bit integers that the bank stores."""
    return np.rint(np.asarray(vectors, np.float32) * GRID_STEPS).astype("<i2")


class VectorSet:
    """A set of distinct quantized vectors, numbered in order of insertion, with cached cosine similarities."""

    def __init__(self, dim: int) -> None:
        self._matrix = np.zeros((64, dim), np.float32)
        self._norms = np.ones(64)
        self._slots: dict[bytes, int] = {}
        self._cosine_cache: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def add_vector(self, vector: np.ndarray) -> int:
        """Add a vector unless the set has it; return its number."""
        key = vector.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = len(self._slots)
            if slot >= len(self._matrix):
                self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
                self._norms = np.concatenate([self._norms, np.ones_like(self._norms)])
            self._matrix[slot] = vector
            self._norms[slot] = vector_norm(vector)
        return slot

    def copy(self) -> VectorSet:
        """The same set, without cached similarities; changes of one do not show in the other."""
        other = VectorSet(self._matrix.shape[1])
        other._matrix, other._norms, other._slots = self._matrix.copy(), self._norms.copy(), dict(self._slots)
        return other

    def cosine_similarities(self, query: np.ndarray) -> np.ndarray:
        """Similarities of the query to every vector. A repeated query computes only those of new vectors."""
        key, count = query.tobytes(), len(self._slots)
        similarities = self._cosine_cache.pop(key, np.zeros(0))
        if len(similarities) < count:
            new = slice(len(similarities), count)
            similarities = np.concatenate([similarities, cosine_similarities(self._matrix[new], self._norms[new], query)])
        self._cosine_cache[key] = similarities
        while len(self._cosine_cache) > max(1, MAX_CACHED_COSINES // max(1, count)):
            self._cosine_cache.popitem(last=False)
        return similarities


class ExactIndex:
    """Items as rows in order of insertion; rows with equal vectors (attempts on one task share their key) share one vector."""

    def __init__(self, dim: int) -> None:
        self.dim, self.rows = dim, 0
        self._vectors = VectorSet(dim)
        # Per row: slot, kind, feasible (-1 for None), task, bottleneck.
        self._columns = np.zeros((64, 5), np.int32, order="F")
        self._text_codes: dict[str, int] = {"": 0}

    def set_row(self, row: int | None, item: MemoryItem, vector: np.ndarray) -> int:
        """Replace a row, or append one if `row` is None; return its number."""
        if row is None:
            row, self.rows = self.rows, self.rows + 1
            if self.rows > len(self._columns):
                self._columns = np.asfortranarray(np.concatenate([self._columns, np.zeros_like(self._columns)]))
        feasible = -1 if item.feasible is None else int(item.feasible)
        task, bottleneck = (self._text_codes.setdefault(text, len(self._text_codes)) for text in (item.task or "", item.bottleneck))
        self._columns[row] = (self._vectors.add_vector(vector), KINDS.index(item.kind), feasible, task, bottleneck)
        return row

    def copy(self) -> ExactIndex:
        """The same index; changes of one do not show in the other."""
        other = ExactIndex(self.dim)
        other.rows, other._vectors = self.rows, self._vectors.copy()
        other._columns, other._text_codes = self._columns.copy(order="F"), dict(self._text_codes)
        return other

    def search(
        self, query: np.ndarray, k: int, kinds: Sequence[MemoryKind], task: str | None, bottleneck: str | None, feasible: bool | None
    ) -> list[tuple[int, float]]:
        """The k most similar rows that pass the filters, with their similarity, most similar first, older first among equals."""
        columns = self._columns[: self.rows]
        mask = np.ones(self.rows, bool)
        if kinds:
            kind_mask = np.zeros(len(KINDS), bool)
            kind_mask[[KINDS.index(kind) for kind in kinds]] = True
            mask &= kind_mask[columns[:, 1]]
        if feasible is not None:
            mask &= columns[:, 2] == int(feasible)
        for column, text in ((3, task), (4, bottleneck)):
            if text is not None:
                mask &= columns[:, column] == self._text_codes.get(text, -1)
        rows = np.flatnonzero(mask)
        if k <= 0 or not len(rows):
            return []
        similarities = self._vectors.cosine_similarities(query).take(columns[:, 0].take(rows))
        if len(rows) > k:
            best = similarities >= np.partition(similarities, len(similarities) - k)[len(similarities) - k]
            rows, similarities = rows[best], similarities[best]
        order = np.lexsort((rows, -similarities))[:k]
        return list(zip(rows[order].tolist(), similarities[order].tolist(), strict=True))


def cosine_similarities(vectors: np.ndarray, norms: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Similarities of a query to quantized vectors, given as float32."""
    # Not BLAS: its threads wait for cores that are busy compiling kernels, and cost more than they save at this size.
    dots = np.einsum("ij,j->i", vectors, query.astype(np.float32))
    similarities: np.ndarray = dots / (norms * vector_norm(query))
    return similarities


def vector_norm(vector: np.ndarray) -> float:
    """Euclidean length of an integer vector, at least 1."""
    wide = vector.astype(np.int64)
    return max(float(np.sqrt(float(wide @ wide))), 1.0)
