"""What an exported kernel for a GPU is used with: a PyTorch module that calls it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evokernel.core.records import Task

WRAPPER = "model_new.py"


def wrapper(task: Task, home: Path, **values: object) -> str:
    """The module's text: what all have in common is beside this file, the way to call a kernel in `home`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [home, Path(__file__).parent]
    environment = Environment(loader=FileSystemLoader(folders), undefined=StrictUndefined, keep_trailing_newline=True)
    scalars = [scalar.kind for scalar in task.signature.scalars]
    return environment.get_template(f"{WRAPPER}.j2").render(task=task, scalars=scalars, **values)
