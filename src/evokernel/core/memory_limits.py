"""Checks whether this machine has enough memory for a task."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from evokernel.core.errors import UserError
from evokernel.core.records import Task

PARTS_BYTES = 6e9
"""A verification in parts: the inputs and outputs of a few tiles, the reference for them, and the simulator."""
COPIES = 4
"""Copies of the tensors during a verification: in the verifier, in the candidate process, and in the float64 reference."""


def estimate_memory_bytes(task: Task, *, in_parts: bool = False) -> float:
    """Return about how much memory a verification needs on the host; with `in_parts` of a kernel that never runs whole there."""
    signature = task.signature
    if in_parts and "laptop" in task.sizes:
        return PARTS_BYTES + 2 * sum(tensor.nbytes for tensor in signature.params)
    tensor_bytes = sum(tensor.nbytes for tensor in (*signature.inputs, *signature.params, *signature.outputs))
    return COPIES * max(tensor_bytes, task.work.peak_bytes)


def memory_shortage(task: Task, *, in_parts: bool = False) -> str:
    """Return how much memory a verification needs and how much there is, if that is too little; otherwise an empty text."""
    required_bytes, total_bytes = estimate_memory_bytes(task, in_parts=in_parts), total_memory_bytes()
    if required_bytes <= total_bytes:
        return ""
    return f"about {required_bytes / 1e9:.3g} GB of memory, but this machine has {total_bytes / 1e9:.3g} GB"


def total_memory_bytes() -> int:
    """Return the size of this machine's main memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(tasks: Sequence[Task], *, in_parts: bool = False, find_shortage: Callable[[Task], str] | None = None) -> None:
    """Raise UserError for a task whose verification needs more memory than this machine has; `find_shortage` says so for a device."""
    for task in tasks:
        if shortage := memory_shortage(task, in_parts=in_parts) or (find_shortage(task) if find_shortage else ""):
            hint = "Choose --size laptop" if "laptop" in task.sizes else "Exclude it from --tasks"
            raise UserError(f"task {task.id} needs {shortage}. {hint}, or reduce its sizes.")
