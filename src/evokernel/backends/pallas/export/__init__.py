"""Exports a Pallas kernel with the module that calls it, on a TPU or in interpret mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.native.export import KERNEL_CALL, render_kernel_call
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.entry_point import NARROWED_DTYPES

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

DEPENDENCIES = ("jax",)


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, in addition to the candidate's files and `reference.py`."""
    chip = get_chip(str(settings.get("chip") or "v5e"))
    kernel_call = render_kernel_call(task, Path(__file__).parent, narrowed=NARROWED_DTYPES, chip_kind=chip.kind, chip_cores=chip.cores)
    return {KERNEL_CALL: kernel_call}
