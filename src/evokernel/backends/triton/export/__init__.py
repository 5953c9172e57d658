"""Exports a Triton kernel with the module that calls it, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.native.export import KERNEL_CALL, render_kernel_call

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

DEPENDENCIES = ("triton",)


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    return {KERNEL_CALL: render_kernel_call(task, Path(__file__).parent)}
