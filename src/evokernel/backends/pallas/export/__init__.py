"""Exports a Pallas kernel with a PyTorch module that calls it, on a TPU or in interpret mode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.pallas.entry_point import NARROWED_DTYPES

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, in addition to the candidate's files and `reference.py`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True)
    wrapper = environment.get_template("model_new.py.j2").render(
        task=task,
        file=next(iter(candidate.files)),
        narrowed=NARROWED_DTYPES,
        scalars=len(task.signature.scalars),
        outputs=[tensor.dtype for tensor in task.signature.outputs],
    )
    return {"model_new.py": wrapper}
