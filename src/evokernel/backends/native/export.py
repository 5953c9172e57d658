"""Renders the file `kernel_call.py` of an export from a backend's template."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.core.records import Task

KERNEL_CALL = "kernel_call.py"


def render_kernel_call(task: Task, folder: Path, **values: object) -> str:
    """Render the template in `folder`; it can include the templates beside this file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [folder, Path(__file__).parent]
    environment = Environment(loader=FileSystemLoader(folders), undefined=StrictUndefined, keep_trailing_newline=True)
    scalars = [scalar.kind for scalar in task.signature.scalars]
    return environment.get_template(f"{KERNEL_CALL}.j2").render(task=task, scalars=scalars, **values)
