"""What an exported C++ kernel is used with: a PyTorch module that builds and calls it, and the header it is compiled with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.cpp.abi import harness_header
from evokernel.backends.cpp.build import FLAGS

if TYPE_CHECKING:
    from evokernel.core.records import Candidate, Settings, Task


def files(task: Task, candidate: Candidate, settings: Settings) -> dict[str, str]:
    """File name to text, beside the candidate's own files and `reference.py`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, keep_trailing_newline=True)
    wrapper = environment.get_template("model_new.py.j2").render(
        task=task,
        flags=[*FLAGS, *str(settings.get("flags") or "").split()],
        compiler=str(settings.get("compiler") or ""),
        threads=int(str(settings.get("threads") or 1)),
        scalars=[scalar.kind for scalar in task.signature.scalars],
    )
    return {"harness.h": harness_header(task.signature), "model_new.py": wrapper}
