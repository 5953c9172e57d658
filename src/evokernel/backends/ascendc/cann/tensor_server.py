"""A process without the candidate: draws a task's tensors at the timed size for whoever runs the kernel, and times PyTorch on the card.

Started with the path of an order (json). PyTorch is timed where torch_npu can be imported and has a card; else nobody is held against it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.backends.ascendc.cann import worker
from evokernel.backends.ascendc.cann.environment import CUSTOM, DEVICE
from evokernel.backends.ascendc.cann.tools import run
from evokernel.core import isolated_python
from evokernel.core.devices import physical_device
from evokernel.core.errors import InfraError
from evokernel.core.protocols import Arguments, Array

if TYPE_CHECKING:
    from evokernel.core.records import Task

ASKED, TORCH = "asked.json", "torch.json"
SEED, WARM_UPS, TRIALS = 1, 3, 100
LIMIT_S = 600.0
STORED = {"bfloat16": "uint16"}


def draw(task: Task, workdir: Path, folder: Path, calls: int, device: int | None = None) -> tuple[float, ...]:
    """Leaves a worker's order in `folder`; gives what PyTorch takes on a card, in microseconds, or nothing where it cannot be asked."""
    asked = {
        "source": task.source,
        "bench": task.sizes["bench"],
        "workdir": str(workdir),
        "folder": str(folder),
        "calls": calls,
        "times_torch": device is not None,
        "outputs": [[tensor.name, tensor.dtype, tensor.shape] for tensor in task.signature.outputs],
    }
    path = workdir / ASKED
    path.write_text(json.dumps(asked))
    variables = {name: value for name, value in os.environ.items() if name != CUSTOM} | {DEVICE: physical_device(device or 0, DEVICE)}
    done = run(isolated_python.isolated_command(__name__, "main", str(path)), workdir, variables, LIMIT_S, jailed=False)
    if not (folder / worker.ORDER).exists():
        why = f"not done after {LIMIT_S:g} s" if done.timed_out else done.text.strip()[-300:] or "it said nothing"
        raise InfraError(f"the task's tensors could not be drawn: {why}")
    timed = folder / TORCH
    return tuple(json.loads(timed.read_text())) if timed.exists() else ()


def main() -> None:
    """In the process of its own: tensors first, so that a PyTorch that cannot use the card spoils nothing."""
    from evokernel.reference.module import Reference

    asked = json.loads(Path(sys.argv[-1]).read_text())
    sample = Reference(asked["source"], overrides=asked["bench"]).sample(SEED)
    outputs = tuple(Array(name, dtype, np.zeros(shape, STORED.get(dtype, dtype))) for name, dtype, shape in asked["outputs"])
    scalars = tuple((number.name, number.kind, float(number.value)) for number in sample.scalars)
    folder = Path(asked["folder"])
    worker.write_order(folder, Path(asked["workdir"]), Arguments(sample.arrays(), scalars, outputs), asked["calls"])
    if asked["times_torch"] and (times := torch_us(sample.module, sample.args)):
        (folder / TORCH).write_text(json.dumps(times))


def torch_us(module: Any, args: tuple[object, ...]) -> list[float]:
    """What the reference takes on the card, between events before and after every call."""
    import torch

    try:
        torch_npu = import_module("torch_npu")
    except ImportError:
        return []
    if not torch_npu.npu.is_available():
        return []
    there, given = module.npu(), [moved(value) for value in args]
    with torch.no_grad():
        return timed(lambda: there(*given), torch_npu.npu)


def timed(call: Callable[[], object], npu: Any) -> list[float]:
    """Every trial is waited for before the next begins."""
    for _ in range(WARM_UPS):
        call()
    npu.synchronize()
    times = []
    for _ in range(TRIALS):
        start, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        npu.synchronize()
        times.append(1e3 * float(start.elapsed_time(end)))
    return times


def moved(value: Any) -> Any:
    """An argument of the reference with its tensors on the card."""
    if isinstance(value, list | tuple):
        return type(value)(moved(one) for one in value)
    if isinstance(value, dict):
        return {key: moved(one) for key, one in value.items()}
    return value.npu() if hasattr(value, "npu") else value
