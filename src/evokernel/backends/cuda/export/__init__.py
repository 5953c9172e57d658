"""What an exported CUDA kernel is used with: a PyTorch module that builds and calls it, and the header it is compiled with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.cuda.abi import harness_header
from evokernel.backends.cuda.build import HEADER
from evokernel.backends.gpu.export import WRAPPER, wrapper

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

FLAGS = ("-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", "-w")


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    flags = [*FLAGS, *str(settings.get("flags") or "").split()]
    made = wrapper(
        task, Path(__file__).parent, flags=flags, compiler=str(settings.get("compiler") or ""), arch=str(settings.get("arch") or "")
    )
    return {HEADER: harness_header(task.signature), WRAPPER: made}
