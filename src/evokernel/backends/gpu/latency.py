"""Measures a recorded candidate on the GPU in turn with the best kernel so far and PyTorch, and profiles it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.backends.gpu import timing_client
from evokernel.backends.gpu.device_memory import plan_memory
from evokernel.backends.gpu.devices import Device
from evokernel.backends.gpu.profile import profile_kernel
from evokernel.backends.gpu.program import FILE, program_key
from evokernel.core.backend import DeviceCase, DeviceCaseResult, DeviceCheckResult, TimingResult
from evokernel.core.errors import ToolUnavailable
from evokernel.core.output_difference import OutputDifference
from evokernel.core.records import Job, Task

CHECK_S, MIN_KERNEL_S = 45.0, 20.0
"""Seconds after which a check begins no further case; and the least time for one run of a kernel, loading included."""
SMALL_BYTES, LARGER_BYTES, LARGER_CHECKS = 3 << 30, 16 << 30, 3
"""Device memory of checks and preparations that need no lock; of larger ones, of which some run at a time; and how many."""
CLOCK = "gpu"
"""Label of GPU events with cold caches."""


def measure_on_device(
    task: Task,
    programs: Path,
    incumbent: Path | None,
    number: int,
    device: Device,
    baselines: Sequence[str] = ("eager",),
    seconds: float = 1.0,
    profiler: str = "never",
    cards: Sequence[str] = (),
) -> TimingResult:
    """Requests a measurement from the timing server and profiles the kernel; `cards` are the names of the backend's cards."""
    more = {"seconds": seconds, "incumbent": str(incumbent) if incumbent else "", "baselines": list(baselines)}
    order = timing_order(task, programs) | more
    ceilings = timing_client.load_or_measure_ceilings(number, device)
    if plan_memory(task).timing_bytes <= SMALL_BYTES:  # others may measure while this task's tensors are drawn
        timing_client.request_timing(number, order | {"prepare": True}, lock=None)
    result = timing_client.request_timing(number, order)
    own = result["candidate"]
    others = {name: tuple(result[name]["samples_us"]) for name in baselines if name in result}
    counters, note = read_counters(programs, order["key"], number) if profiler == "ncu" else ({}, "")
    profile = profile_kernel(task, own["samples_us"], own["warm_us"], ceilings, counters, note, cards)
    best = tuple(result["incumbent"]["samples_us"]) if "incumbent" in result else ()
    return TimingResult(CLOCK, tuple(own["samples_us"]), others, profile, best)


def read_counters(programs: Path, key: str, number: int) -> tuple[dict[str, float], str]:
    """Reads Nsight Compute's counters; returns a reason if there are none."""
    from evokernel.backends.gpu import ncu
    from evokernel.backends.gpu.tools import find_tool

    tool = find_tool("ncu")
    if tool is None:
        return {}, "ncu was not found"
    try:
        return ncu.collect_counters(tool, programs, key, number), ""
    except ToolUnavailable as error:
        return {}, str(error)


def timing_order(task: Task, programs: Path) -> dict[str, Any]:
    """Builds the timing server's request: the task and the folder of the candidate's programs."""
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
        "key": program_key(tensors, [(scalar.kind, scalar.value) for scalar in signature.scalars]),
    }


def check_timed_size(job: Job, programs: Path, cases: Sequence[DeviceCase], number: int) -> DeviceCheckResult:
    """Lets the timing server check a candidate at the timed size."""
    order = timing_order(job.task, programs) | {
        "check": job.task.model_dump(mode="json"),
        "protocol": job.protocol,
        "cases": cases,
        "limit_s": CHECK_S,
    }
    answer = timing_client.request_timing(number, order, max(job.timeout_s, MIN_KERNEL_S), choose_lock(job.task))
    return decode_result(answer["result"])


def choose_lock(task: Task) -> str | None:
    """Returns the lock of a check: none if it is small, one of a few if it is larger, the device's own if it may need most of its memory.

    So the checks of many verifiers run next to each other, and together they fit into device memory.
    """
    plan = plan_memory(task)
    needed_bytes = plan.check_bytes + plan.reference_bytes
    if needed_bytes <= SMALL_BYTES:
        return None
    return f"check{os.getpid() % LARGER_CHECKS}" if needed_bytes <= LARGER_BYTES else ""


def decode_result(fields: dict[str, Any]) -> DeviceCheckResult:
    """Reads the result of a check as the timing server writes it."""
    cases = [
        DeviceCaseResult(**{**case, "difference": OutputDifference.from_json(case["difference"]) if case["difference"] else None})
        for case in fields["cases"]
    ]
    return DeviceCheckResult(tuple(cases), fields["note"])


def tune_configurations(task: Task, programs: Path, choices: Sequence[str], number: int) -> None:
    """Times every configuration at the timed size and installs the fastest for all sizes."""
    result = timing_client.request_timing(number, timing_order(task, programs) | {"tune": list(choices)})
    (programs / choices[int(result["fastest"])]).replace(programs / FILE)
