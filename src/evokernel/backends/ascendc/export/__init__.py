"""Exports an Ascend C operator with the module that calls it: on an NPU where CANN is installed, otherwise on the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.native.export import KERNEL_CALL, render_kernel_call

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task

DEPENDENCIES = ("evokernel",)
RUN_S = 300
"""Time limit of one launch on the simulator. A verification may run only some of the blocks; a user needs all of them."""


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    visible = task.model_copy(update={"sizes": {"bench": {}}})  # without the sizes that generators must not learn
    own_settings = {**settings, "run_s": RUN_S}
    kernel_call = render_kernel_call(task, Path(__file__).parent, files=sorted(candidate.files), settings=own_settings)
    return {KERNEL_CALL: kernel_call, "task.json": visible.model_dump_json(indent=2) + "\n"}
