"""Random numbers as a function of a key and an element's index, so that any box of a tensor can be drawn alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch

from evokernel.core.seeds import seed_from_text
from evokernel.reference.region_boxes import Box, count_elements, measure_box
from evokernel.reference.region_graph import Node, RegionError

BLOCK = 1 << 16
"""Elements hashed at a time: their integers stay in the processor's cache."""
MULTIPLIERS = (np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35))
TABLE_BITS = 14
SMALLEST_QUANTILE = 2.0**-18


def hash_indices(indices: np.ndarray, key: int, high: int) -> np.ndarray:
    """Hash 32-bit indices in place (the finaliser of MurmurHash3 with a keyed first round); `high` are the upper bits of the indices."""
    mixed = seed_from_text(f"{key}/{high}", bits=64)
    with np.errstate(over="ignore"):
        indices ^= np.uint32(mixed & 0xFFFFFFFF)
        indices *= np.uint32(mixed >> 32 | 1)
        indices ^= indices >> np.uint32(16)
        indices *= MULTIPLIERS[0]
        indices ^= indices >> np.uint32(13)
        indices *= MULTIPLIERS[1]
        indices ^= indices >> np.uint32(16)
    return indices


def iterate_hashes(shape: tuple[int, ...], box: Box, key: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the hashes of a box's elements in row-major order, block by block, each with its place in the box."""
    inner = len(shape)
    length = 1
    while inner and length < BLOCK:
        inner -= 1
        length *= box[inner][1] - box[inner][0]
        if box[inner] != (0, shape[inner]):
            break
    starts, pattern = flatten_box(shape[:inner], box[:inner]) * math.prod(shape[inner:]), None
    if inner < len(shape) and all(one == (0, size) for one, size in zip(box[inner + 1 :], shape[inner + 1 :])):
        first = box[inner][0] * math.prod(shape[inner + 1 :])  # the elements of one run are consecutive
    else:
        first, pattern = 0, flatten_box(shape[inner:], box[inner:])
    place = 0
    if pattern is None and length >= BLOCK // 16:
        for start in starts:
            for at in range(0, length, BLOCK):
                yield place, hash_range(int(start) + first + at, min(BLOCK, length - at), key)
                place += min(BLOCK, length - at)
        return
    offsets = np.arange(length, dtype=np.int64) + first if pattern is None else pattern
    rows = max(1, BLOCK // max(1, length))
    for at in range(0, len(starts), rows):
        flat = (starts[at : at + rows, None] + offsets).ravel()
        for part in range(0, len(flat), BLOCK):
            yield place, hash_flat(flat[part : part + BLOCK], key)
            place += min(BLOCK, len(flat) - part)


def flatten_box(shape: tuple[int, ...], box: Box) -> np.ndarray:
    """Return the flat indices of a box's elements."""
    flat = np.zeros(1, dtype=np.int64)
    for size, (start, stop) in zip(shape, box):
        flat = (flat[:, None] * size + np.arange(start, stop)).ravel()
    return flat


def hash_range(start: int, length: int, key: int) -> np.ndarray:
    """Hash consecutive indices."""
    high = start >> 32
    if (start + length - 1) >> 32 != high:
        return hash_flat(np.arange(start, start + length, dtype=np.int64), key)
    return hash_indices(np.arange(start & 0xFFFFFFFF, (start & 0xFFFFFFFF) + length, dtype=np.int64).astype(np.uint32), key, high)


def hash_flat(flat: np.ndarray, key: int) -> np.ndarray:
    """Hash any indices."""
    low = (flat & 0xFFFFFFFF).astype(np.uint32)
    highs = flat >> 32
    first = int(highs[0])
    if int(highs.max()) == int(highs.min()):
        return hash_indices(low, key, first)
    hashes = np.empty_like(low)
    for high in np.unique(highs):
        hashes[highs == high] = hash_indices(low[highs == high], key, int(high))
    return hashes


@cache
def quantile_table() -> tuple[np.ndarray, np.ndarray]:
    """Return quantiles of the normal distribution at equal steps of probability, and the differences of neighbours."""
    steps = torch.arange(2**TABLE_BITS + 1, dtype=torch.float64) / 2**TABLE_BITS
    quantiles = torch.special.ndtri(steps.clamp(SMALLEST_QUANTILE, 1 - SMALLEST_QUANTILE)).numpy()
    return quantiles[:-1].astype(np.float32), np.diff(quantiles).astype(np.float32)


def to_uniform(hashes: np.ndarray) -> np.ndarray:
    """Convert hashes to multiples of 2^-24 in [0, 1)."""
    values: np.ndarray = np.multiply(hashes >> np.uint32(8), np.float32(2.0**-24), dtype=np.float32)
    return values


def to_normal(hashes: np.ndarray) -> np.ndarray:
    """Convert hashes to normal numbers: a quantile from the upper bits, interpolated by the lower ones."""
    table, differences = quantile_table()
    index = (hashes >> np.uint32(32 - TABLE_BITS)).astype(np.intp)
    values = np.take(differences, index)
    values *= np.multiply(hashes & np.uint32(2 ** (32 - TABLE_BITS) - 1), np.float32(2.0 ** (TABLE_BITS - 32)), dtype=np.float32)
    values += np.take(table, index)
    return values


def draw_floats(shape: tuple[int, ...], box: Box, key: int, is_normal: bool) -> torch.Tensor:
    """Draw standard normal numbers, or uniform ones in [0, 1), as float32."""
    values = np.empty(count_elements(box), dtype=np.float32)
    for place, hashes in iterate_hashes(shape, box, key):
        values[place : place + len(hashes)] = to_normal(hashes) if is_normal else to_uniform(hashes)
    return torch.from_numpy(values).reshape(measure_box(box))


def draw_integers(shape: tuple[int, ...], box: Box, key: int, low: int, high: int) -> torch.Tensor:
    """Draw integers in [low, high)."""
    if high - low > 1 << 32:
        raise RegionError(f"random integers of a range above 2^32 ({low} to {high})")
    values = np.empty(count_elements(box), dtype=np.int64)
    for place, hashes in iterate_hashes(shape, box, key):
        values[place : place + len(hashes)] = (hashes.astype(np.uint64) * np.uint64(high - low) >> np.uint64(32)).astype(np.int64) + low
    return torch.from_numpy(values).reshape(measure_box(box))


def draw_node(node: Node, box: Box, key: int) -> torch.Tensor:
    """Draw a box of the result of a random operator, in its dtype."""
    name, named, shape, dtype = node.base_name, node.named, node.shapes[0], node.dtypes[0]
    if name in ("rand", "rand_like", "uniform"):
        low, high = named.get("from", 0.0), named.get("to", 1.0)
        values = draw_floats(shape, box, key, is_normal=False)
        return (values if (low, high) == (0.0, 1.0) else values * (high - low) + low).to(dtype)
    if name in ("randn", "randn_like", "normal_functional", "normal"):
        mean, spread = named.get("mean", 0.0), named.get("std", 1.0)
        if isinstance(mean, float | int) and isinstance(spread, float | int):
            values = draw_floats(shape, box, key, is_normal=True)
            return (values if (mean, spread) == (0.0, 1.0) else values * spread + mean).to(dtype)
    if name in ("randint", "randint_like"):
        return draw_integers(shape, box, key, named.get("low", 0), named["high"]).to(dtype)
    if name == "bernoulli" and isinstance(named.get("p"), float):
        return (draw_floats(shape, box, key, is_normal=False) < named["p"]).to(dtype)
    if name == "randperm":
        generator = torch.Generator().manual_seed(key)
        return torch.randperm(shape[0], generator=generator, dtype=dtype)[slice(*box[0])]
    raise RegionError(f"{node.name}: random numbers that cannot be drawn element by element")
