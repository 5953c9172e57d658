"""Code-aware feature hashing: no model, no network, the same vector in every process and on every machine.

A vector is the sum of two vectors: one for the words of a text, one for the kinds of its PyTorch calls. A linear layer and `a @ b` share
no word, but a kernel for one helps to write a kernel for the other.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from evokernel.core.op_taxonomy import KIND_BY_CALL, PYTHON_BUILTINS

WORD = re.compile(r"self\.[A-Za-z_][A-Za-z0-9_]*\(?|\.?[A-Za-z_][A-Za-z0-9_]*\(?")
"""A word, including characters that show whether it is a call and on which object."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# Words that occur in every reference and every kernel, and so carry no information.
BOILERPLATE = (
    "import from as torch nn f functional class model module self super init def forward return get inputs input output outputs args "
    "returns tensor shape batch size rand randn none float int const void the a an of to and is for in with this that on by be"
)
STOP = frozenset(BOILERPLATE.split())
LOG_COUNTS = np.log1p(np.arange(4096)).astype(np.float32)
CACHE_SIZE = 50_000
MATMUL_OPERATOR = re.compile(r"@(?:(?<=[\w)\]]@)|(?<= @)(?= ))")
"""The operator `@`, but not a decorator."""
CALL_NAME_WEIGHT = 0.5
"""Weight of a call's name relative to its kind: ReLU is more similar to ReLU than to tanh, but similar to both."""


class Features(NamedTuple):
    """Hash features of one word; `word` is 0 for a stop word, `call` is the name of a PyTorch call as in `core/op_taxonomy.py`."""

    word: int
    hashes: tuple[int, ...]
    call: str = ""


class HashEmbedder:
    """Counts words, their parts, word pairs and letter trigrams in `dim` signed buckets, on a logarithmic scale. The kinds of PyTorch
    calls (`core/op_taxonomy.py`) have the same total weight as all words."""

    def __init__(self, dim: int = 1024) -> None:
        if not 8 <= dim <= 65_536:
            raise ValueError(f"dim = {dim} must lie between 8 and 65536")
        self.dim = dim
        self.id = f"hash-{dim}-v2"
        self.replaced_ids = (f"hash-{dim}-v1",)
        """Ids of earlier versions of this embedder; a bank recomputes their vectors."""
        self._features: dict[str, Features] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit row vector per text; a text of stop words only gives a zero row."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row += self._embed_text(text)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        unit_rows: np.ndarray = (rows / np.maximum(norms, 1e-12)[:, None]).astype(np.float32)
        return unit_rows

    def _embed_text(self, text: str) -> np.ndarray:
        words: list[int] = []
        hashes: list[int] = []
        calls: dict[str, None] = {"matmul": None} if MATMUL_OPERATOR.search(text) else {}
        cache = self._features
        for token in WORD.findall(text):
            features = cache.get(token) or self._extract_features(token)
            if features.word:
                words.append(features.word)
                hashes.extend(features.hashes)
                if features.call:
                    calls[features.call] = None
        row: np.ndarray = normalize(self._count_vector(words, hashes)) + normalize(self._call_vector(calls))
        return row

    def _count_vector(self, words: Sequence[int], hashes: Sequence[int]) -> np.ndarray:
        chain = np.array(words, np.uint64)
        pairs = mix_bits(chain[:-1] * np.uint64(0x9E3779B1) + chain[1:])
        every, counts = np.unique(np.concatenate([np.array(hashes, np.uint64), pairs]), return_counts=True)
        signs = np.where(every & np.uint64(1 << 31), -1.0, 1.0)
        weights = LOG_COUNTS[np.minimum(counts, len(LOG_COUNTS) - 1)] * signs
        return np.bincount((every % np.uint64(self.dim)).astype(np.int64), weights, self.dim)

    def _call_vector(self, calls: Iterable[str]) -> np.ndarray:
        names = sorted(calls)
        kinds = sorted({f"kind {KIND_BY_CALL[name]}" for name in names})
        row = np.zeros(self.dim)
        for name, weight in (*((name, CALL_NAME_WEIGHT) for name in names), *((kind, 1.0) for kind in kinds)):
            code = zlib.crc32(f"call {name}".encode())
            row[code % self.dim] += -weight if code >> 31 else weight
        return row

    def _extract_features(self, token: str) -> Features:
        owner, dot, name = token.removesuffix("(").rpartition(".")
        word = name.replace("_", "").lower()
        if word in STOP or not word:
            features = Features(0, ())
        else:
            parts = [part.lower() for part in PART.findall(name)]
            delimited = f"^{word}$"
            trigrams = [f"3{delimited[i : i + 3]}" for i in range(len(delimited) - 2)]
            names = [word, *(part for part in parts if part != word and part not in STOP), *trigrams]
            hashes = tuple(zlib.crc32(name.encode()) for name in names)
            is_call = token.endswith("(") and word in KIND_BY_CALL and not owner and (dot or word not in PYTHON_BUILTINS)
            features = Features(hashes[0] or 1, hashes, word if is_call else "")
        if len(self._features) >= CACHE_SIZE:
            self._features.clear()
        self._features[token] = features
        return features


def normalize(row: np.ndarray) -> np.ndarray:
    """Scale a vector to length 1; a zero vector stays zero."""
    length = float(np.sqrt(np.einsum("i,i->", row, row)))
    return row / length if length else row


def mix_bits(values: np.ndarray) -> np.ndarray:
    """Mix 64-bit values into 32 bits (the finaliser of splitmix64), so that similar hashes do not fall into neighbouring buckets."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values >> np.uint64(32)


plugin = HashEmbedder
