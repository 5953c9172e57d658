"""The TPU generations: their names, and the figures that a latency estimate depends on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Chip:
    """One TPU generation. Every figure describes one TensorCore, because the compiler dumps the schedule of one TensorCore.

    Baselines are stored under a hash of these fields and their names.
    """

    name: str
    topology: str
    """The compiler's name for the smallest system of this generation."""
    kind: str
    """JAX's name for a device of this generation."""
    cores: int
    """TensorCores of one device: the compiler splits parallel grid dimensions between them."""
    chip_cores: int
    """TensorCores of one chip."""
    clock_hz: float
    peak_flops: float
    """bfloat16, dense."""
    hbm_bytes_per_s: float
    """The published bandwidth."""
    hbm_efficiency: float
    """Share of the published bandwidth that long transfers reach."""
    vmem_bytes: int
    granule_bytes: int
    """Size of one granule, the unit in which transfers are counted."""
    read_latency: int
    """Cycles from the end of a transfer HBM to VMEM until the waiting core continues. All fields below are cycles, too."""
    write_latency: int
    matmul: int
    """Cycles for which one matrix multiplication occupies its MXU."""
    matmul_packed: int
    """The same, with two or more values per 32-bit element."""
    matmul_latency: int
    """Cycles from issue until the result can be popped."""
    push: int
    """Cycles for which loading one weight tile occupies its MXU; twice as many if the tile is transposed."""
    push_packed: int
    xlu: int
    """Cycles for which one lane operation (reduction, permutation, transposition) occupies its XLU."""
    xlu_latency: int
    delay_slots: int
    """Bundles after a branch that execute before control reaches its target."""

    @property
    def hbm_bytes_per_cycle(self) -> float:
        return self.hbm_bytes_per_s * self.hbm_efficiency / self.clock_hz


@lru_cache
def load_chips() -> dict[str, Chip]:
    """All chips of `chips.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "chips.toml").read_text())
    return {name: Chip(name=name, **facts) for name, facts in table.items()}


def get_chip(name: str) -> Chip:
    """The chip of that name. Raises ValueError with the list of names if there is no such chip."""
    chips = load_chips()
    if name not in chips:
        raise ValueError(f"unknown chip {name!r}; available chips: {', '.join(chips)}")
    return chips[name]
