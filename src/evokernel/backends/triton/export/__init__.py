"""What an exported Triton kernel is used with: a PyTorch module that calls it, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.gpu.export import WRAPPER, wrapper

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    return {WRAPPER: wrapper(task, Path(__file__).parent)}
