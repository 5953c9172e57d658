"""A process without the candidate that draws a task's tensors at bench size and times PyTorch on the NPU.

Its argument is the path of a request (JSON). It times PyTorch only if torch_npu can be imported and has an NPU.
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
from evokernel.backends.ascendc.cann.environment import CUSTOM_OPP_VARIABLE, DEVICE_VARIABLE
from evokernel.backends.ascendc.cann.tools import run_tool
from evokernel.core.backend import Arguments, Array
from evokernel.core.devices import physical_device
from evokernel.core.errors import InfraError
from evokernel.sandbox import isolated_python

if TYPE_CHECKING:
    from evokernel.core.records import Task

REQUEST_FILE, TORCH_TIMES_FILE = "asked.json", "torch.json"
SEED, WARM_UPS, TRIALS = 1, 3, 100
TIMEOUT_S = 600.0
STORAGE_DTYPES = {"bfloat16": "uint16"}


def write_timing_order(task: Task, workdir: Path, folder: Path, calls: int, device: int | None = None) -> tuple[float, ...]:
    """Write a worker's order to `folder`; returns PyTorch's times on the NPU in microseconds, or none without torch_npu."""
    request = {
        "source": task.source,
        "bench": task.sizes["bench"],
        "workdir": str(workdir),
        "folder": str(folder),
        "calls": calls,
        "times_torch": device is not None,
        "outputs": [[tensor.name, tensor.dtype, tensor.shape] for tensor in task.signature.outputs],
    }
    path = workdir / REQUEST_FILE
    path.write_text(json.dumps(request))
    variables = {name: value for name, value in os.environ.items() if name != CUSTOM_OPP_VARIABLE} | {
        DEVICE_VARIABLE: physical_device(device or 0, DEVICE_VARIABLE)
    }
    result = run_tool(isolated_python.isolated_command(__name__, "main", str(path)), workdir, variables, TIMEOUT_S, sandboxed=False)
    if not (folder / worker.ORDER_FILE).exists():
        why = f"no result after {TIMEOUT_S:g} s" if result.timed_out else result.text.strip()[-300:] or "no output"
        raise InfraError(f"Drawing the task's tensors failed: {why}")
    times_file = folder / TORCH_TIMES_FILE
    return tuple(json.loads(times_file.read_text())) if times_file.exists() else ()


def main() -> None:
    """Entry point of the process. It writes the tensors first, so that a failure of torch_npu does not affect them."""
    from evokernel.reference.module import Reference

    request = json.loads(Path(sys.argv[-1]).read_text())
    sample = Reference(request["source"], overrides=request["bench"]).sample(SEED)
    outputs = tuple(Array(name, dtype, np.zeros(shape, STORAGE_DTYPES.get(dtype, dtype))) for name, dtype, shape in request["outputs"])
    scalars = tuple((number.name, number.kind, float(number.value)) for number in sample.scalars)
    folder = Path(request["folder"])
    worker.write_order(folder, Path(request["workdir"]), Arguments(sample.to_arrays(), scalars, outputs), request["calls"])
    if request["times_torch"] and (times := time_torch(sample.module, sample.args)):
        (folder / TORCH_TIMES_FILE).write_text(json.dumps(times))


def time_torch(module: Any, args: tuple[object, ...]) -> list[float]:
    """Time the reference on the NPU, with events before and after every call."""
    import torch

    try:
        torch_npu = import_module("torch_npu")
    except ImportError:
        return []
    if not torch_npu.npu.is_available():
        return []
    npu_module, npu_args = module.npu(), [move_to_npu(value) for value in args]
    with torch.no_grad():
        return time_calls(lambda: npu_module(*npu_args), torch_npu.npu)


def time_calls(call: Callable[[], object], npu: Any) -> list[float]:
    """Time calls with events; each trial ends before the next one starts."""
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


def move_to_npu(value: Any) -> Any:
    """Copy the tensors in an argument of the reference to the NPU."""
    if isinstance(value, list | tuple):
        return type(value)(move_to_npu(one) for one in value)
    if isinstance(value, dict):
        return {key: move_to_npu(one) for key, one in value.items()}
    return value.npu() if hasattr(value, "npu") else value
