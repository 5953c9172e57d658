"""Exports a CUDA kernel with the module that builds and calls it, and the header it is compiled with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.cuda.abi import harness_header
from evokernel.backends.cuda.build import HEADER
from evokernel.backends.native.export import KERNEL_CALL, render_kernel_call

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

DEPENDENCIES: tuple[str, ...] = ()
FLAGS = ("-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-w")


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    kernel_call = render_kernel_call(
        task,
        Path(__file__).parent,
        flags=[*FLAGS, *str(settings.get("flags") or "").split()],
        compiler=str(settings.get("compiler") or ""),
        arch=str(settings.get("arch") or ""),
    )
    return {HEADER: harness_header(task.signature), KERNEL_CALL: kernel_call}
