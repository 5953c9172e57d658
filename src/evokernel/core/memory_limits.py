"""Checks whether this machine has enough memory for a task."""

from __future__ import annotations

import os
from collections.abc import Sequence

from evokernel.core.errors import UserError
from evokernel.core.records import Task

COPIES = 4
"""Copies of the tensors during a verification: in the verifier, in the candidate process, and in the float64 reference."""


def memory_shortage(task: Task) -> str:
    """Return how much memory a verification needs and how much there is, if that is too little; otherwise an empty text."""
    signature = task.signature
    tensor_bytes = sum(tensor.nbytes for tensor in (*signature.inputs, *signature.params, *signature.outputs))
    required_bytes, total_bytes = COPIES * max(tensor_bytes, task.work.peak_bytes), total_memory_bytes()
    if required_bytes <= total_bytes:
        return ""
    return f"about {required_bytes / 1e9:.3g} GB of memory, but this machine has {total_bytes / 1e9:.3g} GB"


def total_memory_bytes() -> int:
    """Return the size of this machine's main memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(tasks: Sequence[Task]) -> None:
    """Raise UserError for a task whose verification needs more memory than this machine has."""
    for task in tasks:
        if shortage := memory_shortage(task):
            raise UserError(f"task {task.id} needs {shortage}. Exclude it from --tasks, or reduce its sizes.")
