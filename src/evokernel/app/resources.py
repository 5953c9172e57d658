"""Whether a task fits this machine."""

from __future__ import annotations

import os

from evokernel.core.records import Task

COPIES = 4
"""Tensors exist in the judge and in the child, and the reference runs in float64, too."""


def too_large(task: Task) -> str:
    """What judging a task takes and what there is, where that is too little; else nothing."""
    signature = task.signature
    tensors = sum(tensor.nbytes for tensor in (*signature.inputs, *signature.params, *signature.outputs))
    needed, there = COPIES * max(tensors, task.work.peak_bytes), machine_memory()
    return f"about {needed / 1e9:.3g} GB to be judged, this machine has {there / 1e9:.3g}" if needed > there else ""


def machine_memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
