"""The TPU generations programs are compiled for: what they are called, and what the price of a schedule depends on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Chip:
    """One generation. Every figure is of one TensorCore, because one TensorCore's schedule is what the compiler dumps."""

    name: str
    topology: str
    """What the compiler calls the smallest system of it."""
    kind: str
    """What JAX calls a device of it."""
    cores: int
    """TensorCores of one device: a program whose grid says so is split between them."""
    chip_cores: int
    """TensorCores of one chip."""
    clock_hz: float
    peak_flops: float
    """bfloat16, dense."""
    hbm_bytes_per_s: float
    """As published."""
    hbm_efficiency: float
    """Share of it that long transfers reach."""
    vmem_bytes: int
    granule_bytes: int
    """Unit in which transfers are counted."""
    read_latency: int
    """Cycles from the end of a transfer HBM to VMEM until the waiting core goes on; all that follow are cycles, too."""
    write_latency: int
    matmul: int
    """Cycles one matrix multiplication occupies its MXU."""
    matmul_packed: int
    """The same with two or more values per 32-bit element."""
    matmul_latency: int
    """From issue until the result can be popped."""
    push: int
    """Cycles the loading of one weight tile occupies its MXU; twice that when transposed."""
    push_packed: int
    xlu: int
    """Cycles one lane operation (reduction, permutation, transposition) occupies its XLU."""
    xlu_latency: int
    delay_slots: int
    """Bundles after a branch that are executed before it is taken."""

    @property
    def hbm_bytes_per_cycle(self) -> float:
        return self.hbm_bytes_per_s * self.hbm_efficiency / self.clock_hz


@lru_cache
def chips() -> dict[str, Chip]:
    """All of `chips.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "chips.toml").read_text())
    return {name: Chip(name=name, **facts) for name, facts in table.items()}


def chip(name: str) -> Chip:
    """ValueError with the names there are when there is no such chip."""
    known = chips()
    if name not in known:
        raise ValueError(f"unknown chip {name!r}; known are {', '.join(known)}")
    return known[name]
