"""What KernelBench solutions (`ModelNew`) are recorded with: the name of their class, and the attributes of a device if there is none."""

from __future__ import annotations

CLASS = "ModelNew"
NOMINAL = {
    "threads_per_block": 1024,
    "warp": 32,
    "clock_khz": 1_980_000,
    "multiprocessors": 132,
    "memory_clock_khz": 3_201_000,
    "memory_bus_bits": 6144,
    "l2_bytes": 60 << 20,
    "threads_per_multiprocessor": 2048,
    "major": 9,
    "minor": 0,
    "shared_per_multiprocessor": 228 << 10,
    "registers_per_multiprocessor": 65536,
    "shared_per_block": 227 << 10,
    "blocks_per_multiprocessor": 32,
}
"""Device attributes that launch functions see without a GPU: those of an H200."""
