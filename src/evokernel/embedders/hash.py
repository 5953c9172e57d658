"""Code-aware feature hashing: no model, no network, the same vector in every process and on every machine.

A vector is the sum of two: of the words in a text, and of what the PyTorch calls in it compute. A linear layer and `a @ b` share no word,
yet whoever writes a kernel for one wants to know how the other was written.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evokernel.core.calls import BUILTIN, KINDS

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# What every reference and every kernel says, and so tells nothing.
BOILERPLATE = (
    "import from as torch nn f functional class model module self super init def forward return get inputs input output outputs args "
    "returns tensor shape batch size rand randn none float int const void the a an of to and is for in with this that on by be"
)
STOP = frozenset(BOILERPLATE.split())
DAMPED = np.log1p(np.arange(4096)).astype(np.float32)
REMEMBERED = 50_000
CALL = re.compile(r"(\w*\.)?\b([A-Za-z_]\w*)\(|(?<=[\w)\]])@|(?<= )@(?= )")
"""A call, with what stands right before it, or the operator of a matrix product."""
NAMED = 0.5
"""What the name of a call counts beside its kind: ReLU is nearer to ReLU than to tanh, and near to both."""


class Features(NamedTuple):
    """The hashes one word stands for; `word` is 0 for a stop word."""

    word: int
    hashes: tuple[int, ...]


class HashEmbedder:
    """Counts words, their parts, pairs of neighbours and letter trigrams in `dim` signed buckets, damped by a logarithm; kinds of calls, as
    far as `core/calls.py` knows them, weigh as much as all words together."""

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
            row += unit(self._counts(text)) + unit(self._parts(text))
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        found: np.ndarray = (rows / np.maximum(norms, 1e-12)[:, None]).astype(np.float32)
        return found

    def _counts(self, text: str) -> np.ndarray:
        words: list[int] = []
        hashes: list[int] = []
        known = self._known
        for token in WORD.findall(text):
            features = known.get(token) or self._learn(token)
            if features.word:
                words.append(features.word)
                hashes.extend(features.hashes)
        chain = np.array(words, np.uint64)
        pairs = mix(chain[:-1] * np.uint64(0x9E3779B1) + chain[1:])
        every, counts = np.unique(np.concatenate([np.array(hashes, np.uint64), pairs]), return_counts=True)
        signs = np.where(every & np.uint64(1 << 31), -1.0, 1.0)
        weights = DAMPED[np.minimum(counts, len(DAMPED) - 1)] * signs
        return np.bincount((every % np.uint64(self.dim)).astype(np.int64), weights, self.dim)

    def _parts(self, text: str) -> np.ndarray:
        names = dict.fromkeys(name for owner, call in CALL.findall(text) if (name := known(owner, call)))
        kinds = dict.fromkeys(f"kind {KINDS[name]}" for name in names)
        row = np.zeros(self.dim)
        for name, weight in (*((name, NAMED) for name in names), *((kind, 1.0) for kind in kinds)):
            place = zlib.crc32(f"call {name}".encode())
            row[place % self.dim] += -weight if place >> 31 else weight
        return row

    def _learn(self, token: str) -> Features:
        joined = token.replace("_", "").lower()
        if joined in STOP or not joined:
            features = Features(0, ())
        else:
            parts = [part.lower() for part in PART.findall(token)]
            bounded = f"^{joined}$"
            trigrams = [f"3{bounded[i : i + 3]}" for i in range(len(bounded) - 2)]
            names = [joined, *(part for part in parts if part != joined and part not in STOP), *trigrams]
            hashes = tuple(zlib.crc32(name.encode()) for name in names)
            features = Features(hashes[0] or 1, hashes)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[token] = features
        return features


def known(owner: str, call: str) -> str:
    """The name of a call as `core/calls.py` spells it, empty where it does not know it. What `self` calls was made before, by its name."""
    if not call:
        return "matmul"
    name = call.replace("_", "").lower()
    return name if name in KINDS and owner != "self." and (owner or name not in BUILTIN) else ""


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
