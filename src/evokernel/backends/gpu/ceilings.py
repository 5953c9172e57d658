"""What a device can do, measured on it: bytes moved and operations of each kind, the best of a few runs."""

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
COPIED, CACHED, SIDE, TIMES = 1 << 30, 8 << 20, 8192, 5
NAMES = ("copy_gbs", "write_gbs", "cache_gbs", "float32_tflops", "tf32_tflops", "float16_tflops", "bfloat16_tflops", "launch_us")


def measure(driver: Driver) -> dict[str, float]:
    """About two seconds."""
    import torch

    def best_us(run: Callable[[], object], calls: int = 1) -> float:
        before, after = driver.event(), driver.event()
        found = []
        for _ in range(TIMES):
            driver.synchronize()
            driver.record(before, 0)
            for _ in range(calls):
                run()
            driver.record(after, 0)
            found.append(driver.elapsed_us(before, after) / calls)
        return min(found)

    large = [torch.empty(COPIED, dtype=torch.uint8, device="cuda") for _ in range(2)]
    small, target = (torch.empty(CACHED, dtype=torch.uint8, device="cuda") for _ in range(2))
    found = {
        "copy_gbs": 2 * COPIED / best_us(lambda: large[1].copy_(large[0]), 5) / 1e3,
        "write_gbs": COPIED / best_us(lambda: large[0].fill_(1), 5) / 1e3,
        "cache_gbs": 2 * CACHED / best_us(lambda: target.copy_(small), 100) / 1e3,
        "launch_us": best_us(lambda: driver.fill(small.data_ptr(), 1, 4), 100),
    }
    large.clear()
    operations = 2 * SIDE**3
    for name, dtype, is_narrow in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float16", torch.float16, False),
        ("bfloat16", torch.bfloat16, False),
    ):
        left, right = (torch.randn(SIDE, SIDE, device="cuda", dtype=dtype) for _ in range(2))
        kept, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, is_narrow
        try:
            found[f"{name}_tflops"] = operations / best_us(partial(torch.matmul, left, right), 2) / 1e6
        finally:
            torch.backends.cuda.matmul.allow_tf32 = kept
    return found


def kept(device: str) -> dict[str, float] | None:
    """As measured before on a device of this name and driver."""
    try:
        found: dict[str, Any] = json.loads(place(device).read_text())
        return {name: float(found[name]) for name in NAMES}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(device: str, found: dict[str, float]) -> None:
    try:
        paths.write_bytes(place(device), json.dumps(found).encode())
    except OSError as error:
        log.debug("ceilings are not kept: %s", error)


def place(device: str) -> Any:
    return paths.cache_folder() / "ceilings" / f"gpu-{''.join(c if c.isalnum() else '-' for c in device)}.json"
