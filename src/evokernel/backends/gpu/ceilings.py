"""Measures a GPU's peak rates: bytes moved and operations of each type, the best of a few runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from evokernel.core import paths

if TYPE_CHECKING:
    from evokernel.backends.gpu.driver import Driver

log = logging.getLogger(__name__)
COPY_BYTES, CACHE_BYTES, MATRIX_SIZE, REPEATS = 1 << 30, 8 << 20, 8192, 5
NAMES = ("copy_gbs", "write_gbs", "cache_gbs", "float32_tflops", "tf32_tflops", "float16_tflops", "bfloat16_tflops", "launch_us")


def measure_ceilings(driver: Driver) -> dict[str, float]:
    """Measures all ceilings; takes about two seconds."""
    import torch

    def best_us(run: Callable[[], object], calls: int = 1) -> float:
        before, after = driver.event(), driver.event()
        times_us = []
        for _ in range(REPEATS):
            driver.synchronize()
            driver.record(before, 0)
            for _ in range(calls):
                run()
            driver.record(after, 0)
            times_us.append(driver.elapsed_us(before, after) / calls)
        return min(times_us)

    large = [torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    small, target = (torch.empty(CACHE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    ceilings = {
        "copy_gbs": 2 * COPY_BYTES / best_us(lambda: large[1].copy_(large[0]), 5) / 1e3,
        "write_gbs": COPY_BYTES / best_us(lambda: large[0].fill_(1), 5) / 1e3,
        "cache_gbs": 2 * CACHE_BYTES / best_us(lambda: target.copy_(small), 100) / 1e3,
        "launch_us": best_us(lambda: driver.fill(small.data_ptr(), 1, 4), 100),
    }
    large.clear()
    operations = 2 * MATRIX_SIZE**3
    for name, dtype, is_narrow in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
        ("bfloat16", torch.bfloat16, False),
    ):
        a, b = (torch.randn(MATRIX_SIZE, MATRIX_SIZE, device="cuda", dtype=dtype) for _ in range(2))
        previous, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, is_narrow
        try:
            ceilings[f"{name}_tflops"] = operations / best_us(partial(torch.matmul, a, b), 2) / 1e6
        finally:
            torch.backends.cuda.matmul.allow_tf32 = previous
    return ceilings


def load_ceilings(device: str) -> dict[str, float] | None:
    """Loads the ceilings measured earlier on a device of this name and driver; None without any."""
    try:
        stored: dict[str, Any] = json.loads(ceilings_file(device).read_text())
        return {name: float(stored[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_ceilings(device: str, ceilings: dict[str, float]) -> None:
    try:
        paths.write_bytes(ceilings_file(device), json.dumps(ceilings).encode())
    except OSError as error:
        log.debug("ceilings were not cached: %s", error)


def ceilings_file(device: str) -> Any:
    return paths.cache_folder() / "ceilings" / f"gpu-{''.join(c if c.isalnum() else '-' for c in device)}.json"
