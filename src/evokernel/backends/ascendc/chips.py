"""The 910B chips kernels are priced for: what they have, and what the cost model charges."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evokernel.core.plugins import did_you_mean

COMMON = "common"
REPEAT_BYTES = 256
"""What a vector instruction works on at a time."""
SETTINGS = (
    "aiv_cores", "aic_cores", "ghz", "ub_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes", "bt_bytes", "fb_bytes", "l2_bytes",
    "max_buffers", "event_ids", "queue_buffers", "issue", "vector_start", "scalar_ub", "scalar_gm_hit", "scalar_gm_miss", "flag",
    "handshake", "dcache_lines", "hbm_bytes_per_cycle", "l2_bytes_per_cycle", "unaligned_gm", "cube_macs_half", "cube_macs_float",
    "l1_to_l0_bytes_per_cycle", "fixpipe_bytes_per_cycle", "launch_us", "sync_all", "l2_share",
    "copy_start", "core_hbm_bytes_per_cycle", "matmul_bytes_per_cycle", "matmul_bulk_bytes_per_cycle",
)  # fmt: skip
"""What the twin's runtime is told, by the names it has for it."""


@dataclass(frozen=True)
class Chip:
    """One chip. Cycles are of one core, bytes per second of the whole chip."""

    name: str
    soc: str
    """What CANN calls it."""
    aic_cores: int
    """With a cube unit each."""
    aiv_cores: int
    """With a vector unit each."""
    ghz: float
    ub_bytes: int
    l1_bytes: int
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    bt_bytes: int
    fb_bytes: int
    l2_bytes: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    """As published."""
    hbm_efficiency: float
    """Share of it that long copies reach."""
    l2_bytes_per_cycle_per_core: float
    """Of an AI core: a cube core and its two vector cores."""
    l2_peak_bytes_per_s: float
    """The most that is claimed."""
    l2_share: float
    """Data up to this share of L2 are taken to stay in it."""
    max_buffers: int
    event_ids: int
    queue_buffers: int
    cube_macs_half: int
    """Multiply-adds of one cube core and cycle."""
    cube_macs_float: int
    cube_macs_int8: int
    issue: float
    vector_start: float
    scalar_ub: float
    scalar_gm_hit: float
    scalar_gm_miss: float
    dcache_lines: int
    flag: float
    handshake: float
    sync_all: float
    unaligned_gm: float
    copy_start: float
    core_hbm_bytes_per_cycle: float
    matmul_bytes_per_cycle: float
    matmul_bulk_bytes_per_cycle: float
    l1_to_l0_bytes_per_cycle: float
    fixpipe_bytes_per_cycle: float
    launch_us: float
    copy_kib: tuple[float, ...]
    copy_cycles: tuple[float, ...]
    vector: Mapping[str, float | Mapping[str, float]]
    """Cycles per repeat of a vector instruction, by its name and, where it matters, type."""

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """What long copies reach."""
        return self.hbm_bytes_per_s * self.hbm_efficiency / (self.ghz * 1e9)

    @property
    def l2_bytes_per_cycle(self) -> float:
        return self.l2_bytes_per_cycle_per_core * self.aic_cores

    def bytes_per_cycle(self, footprint: float) -> float:
        """At which the cores together move data that take up so many bytes."""
        return self.l2_bytes_per_cycle if footprint <= self.l2_share * self.l2_bytes else self.hbm_bytes_per_cycle

    def copy(self, size: float) -> float:
        """Cycles of one copy of so many bytes between GM and UB."""
        kib, points = size / 1024, list(zip(self.copy_kib, self.copy_cycles))
        after = next((i for i, (point, _) in enumerate(points) if i and kib <= point), len(points) - 1)
        (low, before), (high, then) = points[after - 1], points[after]
        return before + (kib - low) * (then - before) / (high - low)

    def instruction(self, name: str, dtype: str = "float32") -> float:
        """Cycles per repeat; KeyError when the table lacks it."""
        cycles = self.vector[name]
        if isinstance(cycles, Mapping):
            return cycles["float16"] if dtype in ("float16", "int16", "uint16") else cycles["float32"]
        return cycles

    def least_us(self, size: float) -> float:
        """Nothing moves so many bytes faster, even when L2 holds all of them that it can."""
        cached = min(size, float(self.l2_bytes))
        return (cached / self.l2_peak_bytes_per_s + (size - cached) / self.hbm_bytes_per_s) * 1e6

    def us(self, cycles: float) -> float:
        return cycles / (self.ghz * 1e3)

    def as_settings(self) -> dict[str, float | tuple[float, ...]]:
        """What the twin's runtime is configured with."""
        numbers = {name: float(getattr(self, name)) for name in SETTINGS}
        return {**numbers, "copy_kib": self.copy_kib, "copy_cycles": self.copy_cycles}

    def as_lines(self) -> str:
        """The same as the `key=value` lines it reads, several values with commas between them."""
        listed = ((name, value if isinstance(value, tuple) else (value,)) for name, value in self.as_settings().items())
        return "".join(f"{name}={','.join(map(repr, values))}\n" for name, values in listed)


@lru_cache
def chips() -> dict[str, Chip]:
    """All of `chips.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "chips.toml").read_text(encoding="utf-8"))
    common = table.pop(COMMON)
    for points in ("copy_kib", "copy_cycles"):
        common[points] = tuple(map(float, common[points]))
    return {name: Chip(name=name, **common, **facts) for name, facts in table.items()}


def chip(name: str) -> Chip:
    """ValueError with the names there are when there is no such chip; CANN's own names do, too."""
    known = chips()
    short = name.removeprefix("Ascend")
    if short not in known:
        raise ValueError(f"unknown chip {name!r}{did_you_mean(short.upper(), list(known))}; known are {', '.join(known)}")
    return known[short]
