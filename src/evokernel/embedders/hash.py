"""Code-aware feature hashing: no model, no network, the same vector in every process and on every machine.

A vector is the sum of two: of the words in a text, and of what the PyTorch calls in it compute. A linear layer and `a @ b` share no word,
yet whoever writes a kernel for one wants to know how the other was written.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from evokernel.core.op_taxonomy import BUILTIN, KINDS

WORD = re.compile(r"self\.[A-Za-z_][A-Za-z0-9_]*\(?|\.?[A-Za-z_][A-Za-z0-9_]*\(?")
"""With what tells whether it is a call, and whose."""
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# What every reference and every kernel says, and so tells nothing.
BOILERPLATE = (
    "import from as torch nn f functional class model module self super init def forward return get inputs input output outputs args "
    "returns tensor shape batch size rand randn none float int const void the a an of to and is for in with this that on by be"
)
STOP = frozenset(BOILERPLATE.split())
DAMPED = np.log1p(np.arange(4096)).astype(np.float32)
REMEMBERED = 50_000
PRODUCT = re.compile(r"@(?:(?<=[\w)\]]@)|(?<= @)(?= ))")
"""The operator, not a decorator."""
NAMED = 0.5
"""What the name of a call counts beside its kind: ReLU is nearer to ReLU than to tanh, and near to both."""


class Features(NamedTuple):
    """The hashes one word stands for; `word` is 0 for a stop word, `call` the name of a PyTorch call as `core/op_taxonomy.py` spells it."""

    word: int
    hashes: tuple[int, ...]
    call: str = ""


class HashEmbedder:
    """Counts words, their parts, pairs of neighbours and letter trigrams in `dim` signed buckets, damped by a logarithm; kinds of calls, as
    far as `core/op_taxonomy.py` knows them, weigh as much as all words together."""

    def __init__(self, dim: int = 1024) -> None:
        if not 8 <= dim <= 65_536:
            raise ValueError(f"dim = {dim} must lie between 8 and 65536")
        self.dim = dim
        self.id = f"hash-{dim}-v2"
        self.earlier = (f"hash-{dim}-v1",)
        """Ids of the embedders this one takes the place of: what a bank holds by them is embedded again."""
        self._known: dict[str, Features] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """One unit row per text; a text without a single telling word gives a zero row."""
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row += self._row(text)
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        found: np.ndarray = (rows / np.maximum(norms, 1e-12)[:, None]).astype(np.float32)
        return found

    def _row(self, text: str) -> np.ndarray:
        words: list[int] = []
        hashes: list[int] = []
        calls: dict[str, None] = {"matmul": None} if PRODUCT.search(text) else {}
        known = self._known
        for token in WORD.findall(text):
            features = known.get(token) or self._learn(token)
            if features.word:
                words.append(features.word)
                hashes.extend(features.hashes)
                if features.call:
                    calls[features.call] = None
        row: np.ndarray = unit(self._counts(words, hashes)) + unit(self._parts(calls))
        return row

    def _counts(self, words: Sequence[int], hashes: Sequence[int]) -> np.ndarray:
        chain = np.array(words, np.uint64)
        pairs = mix(chain[:-1] * np.uint64(0x9E3779B1) + chain[1:])
        every, counts = np.unique(np.concatenate([np.array(hashes, np.uint64), pairs]), return_counts=True)
        signs = np.where(every & np.uint64(1 << 31), -1.0, 1.0)
        weights = DAMPED[np.minimum(counts, len(DAMPED) - 1)] * signs
        return np.bincount((every % np.uint64(self.dim)).astype(np.int64), weights, self.dim)

    def _parts(self, calls: Iterable[str]) -> np.ndarray:
        names = sorted(calls)
        kinds = sorted({f"kind {KINDS[name]}" for name in names})
        row = np.zeros(self.dim)
        for name, weight in (*((name, NAMED) for name in names), *((kind, 1.0) for kind in kinds)):
            place = zlib.crc32(f"call {name}".encode())
            row[place % self.dim] += -weight if place >> 31 else weight
        return row

    def _learn(self, token: str) -> Features:
        owner, dot, name = token.removesuffix("(").rpartition(".")
        joined = name.replace("_", "").lower()
        if joined in STOP or not joined:
            features = Features(0, ())
        else:
            parts = [part.lower() for part in PART.findall(name)]
            bounded = f"^{joined}$"
            trigrams = [f"3{bounded[i : i + 3]}" for i in range(len(bounded) - 2)]
            names = [joined, *(part for part in parts if part != joined and part not in STOP), *trigrams]
            hashes = tuple(zlib.crc32(name.encode()) for name in names)
            is_call = token.endswith("(") and joined in KINDS and not owner and (dot or joined not in BUILTIN)
            features = Features(hashes[0] or 1, hashes, joined if is_call else "")
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[token] = features
        return features


def unit(row: np.ndarray) -> np.ndarray:
    """Of length 1, or zero as it was."""
    length = float(np.sqrt(np.einsum("i,i->", row, row)))
    return row / length if length else row


def mix(values: np.ndarray) -> np.ndarray:
    """Spreads 64-bit values over 32 bits (the end of splitmix64), so that neighbouring words do not land in neighbouring buckets."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values >> np.uint64(32)


plugin = HashEmbedder
