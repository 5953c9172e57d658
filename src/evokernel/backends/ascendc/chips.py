"""The 910B chips: their hardware figures and the constants of the cost model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evokernel.core.plugins import did_you_mean

COMMON_TABLE = "common"
REPEAT_BYTES = 256
"""Bytes that a vector instruction processes per repeat."""
RUNTIME_SETTINGS = (
    "aiv_cores", "aic_cores", "ghz", "ub_bytes", "l1_bytes", "l0a_bytes", "l0b_bytes", "l0c_bytes", "bt_bytes", "fb_bytes", "l2_bytes",
    "max_buffers", "event_ids", "queue_buffers", "issue", "vector_start", "reduce_start", "scalar_ub", "scalar_gm_hit", "scalar_gm_miss",
    "flag", "handshake", "dcache_lines", "hbm_bytes_per_cycle", "l2_bytes_per_cycle", "unaligned_gm", "cube_macs_half", "cube_macs_float",
    "cube_macs_int8", "l1_to_l0_bytes_per_cycle", "fixpipe_bytes_per_cycle", "launch_us", "sync_all", "l2_share",
    "copy_start", "core_hbm_bytes_per_cycle", "cold_l2", "bypass_request", "same_address", "matmul_bytes_per_cycle",
    "matmul_odd_bytes_per_cycle", "matmul_row", "matmul_start", "cube_start",
)  # fmt: skip
"""Settings of the simulator, by its own names."""


@dataclass(frozen=True)
class Chip:
    """One chip. Cycles are of one core, bytes per second of the entire chip."""

    name: str
    soc: str
    """Name of the chip in CANN."""
    aic_cores: int
    """Number of cores with a cube unit."""
    aiv_cores: int
    """Number of cores with a vector unit."""
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
    """Published bandwidth."""
    hbm_efficiency: float
    """Share of the published bandwidth that long copies reach."""
    l2_bytes_per_cycle_per_core: float
    """Per AI core, which is a cube core and its two vector cores."""
    l2_peak_bytes_per_s: float
    """The highest published figure."""
    l2_share: float
    """The model assumes that data up to this share of the L2 capacity stay in L2."""
    max_buffers: int
    event_ids: int
    queue_buffers: int
    cube_macs_half: int
    """Multiply-adds of one cube core per cycle."""
    cube_macs_float: int
    cube_macs_int8: int
    issue: float
    vector_start: float
    reduce_start: float
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
    cold_l2: float
    """1 if no argument is in L2 when a kernel starts, as for a single launch under a profiler."""
    bypass_request: float
    same_address: float
    matmul_bytes_per_cycle: float
    matmul_odd_bytes_per_cycle: float
    matmul_row: float
    matmul_start: float
    cube_start: float
    l1_to_l0_bytes_per_cycle: float
    fixpipe_bytes_per_cycle: float
    launch_us: float
    copy_kib: tuple[float, ...]
    copy_cycles: tuple[float, ...]
    vector: Mapping[str, float | Mapping[str, float]]
    """Cycles per repeat of a vector instruction, by name and, if they differ, by type."""

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """Bandwidth of long copies."""
        return self.hbm_bytes_per_s * self.hbm_efficiency / (self.ghz * 1e9)

    @property
    def l2_bytes_per_cycle(self) -> float:
        return self.l2_bytes_per_cycle_per_core * self.aic_cores

    @property
    def long_copy_rate(self) -> float:
        """Bytes per cycle of the longest copies of one core."""
        return 1024 * (self.copy_kib[-1] - self.copy_kib[-2]) / (self.copy_cycles[-1] - self.copy_cycles[-2])

    def bandwidth_for_footprint(self, footprint: float) -> float:
        """Bandwidth of all cores together for data of this size: L2 if they fit, else HBM."""
        return self.l2_bytes_per_cycle if footprint <= self.l2_share * self.l2_bytes else self.hbm_bytes_per_cycle

    def estimate_copy_cycles(self, size: float) -> float:
        """Cycles of one copy of `size` bytes between GM and UB."""
        kib, points = size / 1024, list(zip(self.copy_kib, self.copy_cycles))
        after = next((i for i, (point, _) in enumerate(points) if i and kib <= point), len(points) - 1)
        (low, before), (high, then) = points[after - 1], points[after]
        return before + (kib - low) * (then - before) / (high - low)

    def instruction_cycles(self, name: str, dtype: str = "float32") -> float:
        """Cycles per repeat. Raises KeyError for an unknown instruction."""
        cycles = self.vector[name]
        if isinstance(cycles, Mapping):
            return cycles["float16"] if dtype in ("float16", "int16", "uint16") else cycles["float32"]
        return cycles

    def minimum_transfer_us(self, size: float) -> float:
        """Lower bound of the time to move `size` bytes, with as many of them in L2 as fit."""
        cached_bytes = min(size, float(self.l2_bytes))
        return (cached_bytes / self.l2_peak_bytes_per_s + (size - cached_bytes) / self.hbm_bytes_per_s) * 1e6

    def cycles_to_us(self, cycles: float) -> float:
        return cycles / (self.ghz * 1e3)

    def runtime_settings(self) -> dict[str, float | tuple[float, ...]]:
        """The settings of the simulator for this chip."""
        numbers = {name: float(getattr(self, name)) for name in RUNTIME_SETTINGS}
        return {**numbers, "copy_kib": self.copy_kib, "copy_cycles": self.copy_cycles}

    def runtime_config_text(self) -> str:
        """The settings as the `key=value` lines that the simulator reads, lists with commas."""
        rows = ((name, value if isinstance(value, tuple) else (value,)) for name, value in self.runtime_settings().items())
        return "".join(f"{name}={','.join(map(repr, values))}\n" for name, values in rows)


@lru_cache
def load_chips() -> dict[str, Chip]:
    """All of `chips.toml`, by name."""
    table = tomllib.loads((Path(__file__).parent / "chips.toml").read_text(encoding="utf-8"))
    common = table.pop(COMMON_TABLE)
    for points in ("copy_kib", "copy_cycles"):
        common[points] = tuple(map(float, common[points]))
    return {name: Chip(name=name, **common, **facts) for name, facts in table.items()}


def find_chip(name: str) -> Chip:
    """Find a chip by its name or its name in CANN. Raises ValueError with the known names."""
    chips_by_name = load_chips()
    short = name.removeprefix("Ascend")
    if short not in chips_by_name:
        raise ValueError(
            f"unknown chip {name!r}{did_you_mean(short.upper(), list(chips_by_name))}; known chips: {', '.join(chips_by_name)}"
        )
    return chips_by_name[short]
