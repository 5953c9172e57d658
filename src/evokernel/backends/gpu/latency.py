"""What a recorded candidate takes on the device, beside the best so far and PyTorch, and what bounds it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.backends.gpu import timing_client
from evokernel.backends.gpu.devices import Device
from evokernel.backends.gpu.profile import profile
from evokernel.backends.gpu.program import FILE, key
from evokernel.core.errors import ToolUnavailable
from evokernel.core.protocols import TimingResult
from evokernel.core.records import Task

CLOCK = "gpu"
"""Events on the device, cold caches."""


def timed(
    task: Task,
    programs: Path,
    beside: Path | None,
    number: int,
    device: Device,
    baselines: Sequence[str] = ("eager",),
    seconds: float = 1.0,
    profiler: str = "never",
) -> TimingResult:
    """Asks the process that holds the clock."""
    more = {"seconds": seconds, "incumbent": str(beside) if beside else "", "baselines": list(baselines)}
    order = ordered(task, programs) | more
    ceilings = timing_client.ceilings_of(number, device)
    found = timing_client.ask(number, order)
    own = found["candidate"]
    others = {name: tuple(found[name]["samples_us"]) for name in baselines if name in found}
    counted, noted = counters(programs, order["key"], number) if profiler == "ncu" else ({}, "")
    measured = profile(task, own["samples_us"], own["warm_us"], ceilings, counted, noted)
    best = tuple(found["incumbent"]["samples_us"]) if "incumbent" in found else ()
    return TimingResult(CLOCK, tuple(own["samples_us"]), others, measured, best)


def counters(programs: Path, key: str, number: int) -> tuple[dict[str, float], str]:
    """The profiler's, or why there are none."""
    from evokernel.backends.gpu import ncu
    from evokernel.backends.gpu.tools import find

    tool = find("ncu")
    if tool is None:
        return {}, "ncu is not found"
    try:
        return ncu.counters(tool, programs, key, number), ""
    except ToolUnavailable as error:
        return {}, str(error)


def ordered(task: Task, programs: Path) -> dict[str, Any]:
    """What the process needs to know of a task, and where a candidate's programs are."""
    signature = task.signature
    tensors = [(tensor.dtype, tensor.shape) for tensor in (*signature.inputs, *signature.params, *signature.outputs)]
    return {
        "task": task.id,
        "source": task.source,
        "bench": task.sizes["bench"],
        "seed": secrets.randbits(40),
        "atol": task.atol,
        "rtol": task.rtol,
        "candidate": str(programs),
        "key": key(tensors, [(scalar.kind, scalar.value) for scalar in signature.scalars]),
    }


def tune(task: Task, programs: Path, choices: Sequence[str], number: int) -> None:
    """Tries every configuration at the timed size, and has the fastest one taken at all sizes."""
    found = timing_client.ask(number, ordered(task, programs) | {"tune": list(choices)})
    (programs / choices[int(found["fastest"])]).replace(programs / FILE)
