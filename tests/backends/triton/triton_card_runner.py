"""Runs cards' kernels in Triton's interpreter: a file per line comes in, a line of JSON with what was wrong goes out.

A process of its own, since the interpreter must be chosen before triton is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
from triton_card_cases import CASES, SIZES

GUARD, MARK = 4096, 77
TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-3}


class Tuner:
    """Stands in for the device's clock: the first configuration is as good as any."""

    def get_benchmarker(self):
        return lambda call, quantiles: (call(), [1.0, 1.0, 1.0])[1]


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(module: ModuleType, name: str, size: tuple[int, int]) -> list[str]:
    """What is not as it must be."""
    torch.manual_seed(sum(size))
    arguments, wanted = CASES[name](*size)
    kept = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    rooms = [torch.full((2 * GUARD + one.numel(),), MARK, dtype=one.dtype) for one in wanted]
    outputs = [room[GUARD : GUARD + one.numel()].view(one.shape) for room, one in zip(rooms, wanted)]
    module.kernel(*arguments, *outputs)
    found = []
    for room, output, one in zip(rooms, outputs, wanted):
        if not ((room[:GUARD] == MARK).all() and (room[GUARD + one.numel() :] == MARK).all()):
            found.append(f"{size}: wrote outside")
        if one.is_floating_point():
            error, allowed = (output.double() - one.double()).abs(), TOLERANCE[one.dtype]
            bound = allowed * (one.double().square().mean().sqrt() + one.double().abs())
            if not bool((error <= bound).all()):
                found.append(f"{size}: off by {float((error / bound).max()):.1f} times what is allowed")
        elif not torch.equal(output, one):
            found.append(f"{size}: other numbers")
    if any(isinstance(one, torch.Tensor) and not torch.equal(one, old) for one, old in zip(arguments, kept)):
        found.append(f"{size}: changed its inputs")
    return found


def main() -> None:
    triton.runtime.driver.set_active(Tuner())
    for line in sys.stdin:
        path = Path(line.strip())
        try:
            module = loaded(path)
            answer = [one for size in SIZES for one in differences(module, path.stem, size)]
        except Exception:
            answer = [traceback.format_exc(limit=-4)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
