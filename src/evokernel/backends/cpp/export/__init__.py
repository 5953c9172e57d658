"""Exports a C++ kernel with the module that builds and calls it, and the header it is compiled with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.cpp.abi import harness_header
from evokernel.backends.cpp.build import FLAGS
from evokernel.backends.native.export import KERNEL_CALL, render_kernel_call

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

DEPENDENCIES: tuple[str, ...] = ()


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    kernel_call = render_kernel_call(
        task,
        Path(__file__).parent,
        flags=[*FLAGS, *str(settings.get("flags") or "").split()],
        compiler=str(settings.get("compiler") or ""),
        threads=int(str(settings.get("threads") or 1)),
    )
    return {"harness.h": harness_header(task.signature), KERNEL_CALL: kernel_call}
