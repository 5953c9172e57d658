"""Extracts task files from a model: one for each operator that takes enough time and that kernels can be verified on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.memory_limits import check_memory
from evokernel.core.records import Task
from evokernel.reference.describe import describe_task
from evokernel.reference.module import Reference
from evokernel.suites import cache
from evokernel.torch_models.calls import UnsupportedArgument
from evokernel.torch_models.profiles import ModelProfile, Operator
from evokernel.torch_models.task_source import task_file_name, write_task_source

UNSUITABLE_TAGS = {
    "random": "it draws random numbers",
    "vacuous": "a kernel that computes nothing would pass",
}
"""Tags of tasks that the verifier cannot decide on, with the reason."""


class ExtractedTask(NamedTuple):
    """An operator and its task file."""

    operator: Operator
    path: Path | None
    reason: str = ""
    """Why there is no task file."""


def select_operators(profile: ModelProfile, min_share: float, max_operators: int) -> list[Operator]:
    """Return the operators with at least this share of the model's time, at most `max_operators`."""
    return [operator for operator in profile.operators if operator.share >= min_share][:max_operators]


def create_task_folder(folder: Path) -> None:
    """Create the folder for the tasks; refuse one with Python files, whose ranks would mix with the new ones."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.py")):
            raise UserError(f"{folder} already contains Python files. Remove it, or choose another folder with --out.")
    except OSError as error:
        raise UserError(f"cannot create {folder}: {error.strerror}. Choose another folder with --out.") from error


def extract_tasks(
    operators: list[Operator], model: str, folder: Path, report_progress: Callable[[str], None] = lambda _: None
) -> Iterator[ExtractedTask]:
    """Write a task file for each operator that kernels can be verified on."""
    for rank, operator in enumerate(operators, start=1):
        path = folder / task_file_name(operator, rank)
        report_progress(f"extracting a task from {operator.call.name}")
        try:
            paths.write_text(path, make_task_source(operator, model, str(path)))
        except (UserError, UnsupportedArgument) as error:
            yield ExtractedTask(operator, None, str(error))
        else:
            yield ExtractedTask(operator, path)


def make_task_source(operator: Operator, model: str, name: str) -> str:
    """Return the source of a task. If the model's inputs make it vacuous, the task draws their scale at random."""
    text = write_task_source(operator, model)
    task = describe_cached(text, name)
    if "vacuous" in task.tags:
        text = write_task_source(operator, model, scale=True)
        task = describe_cached(text, name)
    if "non-finite" in task.tags and has_nan(text, name, task):
        raise UserError("its output contains NaN for inputs drawn like the model's")
    if reasons := [UNSUITABLE_TAGS[tag] for tag in task.tags if tag in UNSUITABLE_TAGS]:
        raise UserError("; ".join(reasons))
    check_memory([task.model_copy(update={"id": Path(name).stem})])
    return text


def has_nan(text: str, name: str, task: Task) -> bool:
    """Whether a task's output contains NaN; kernels can match infinities."""
    reference = Reference(text, name, task.sizes["small"])
    return any(bool(tensor.isnan().any()) for _, tensor in reference.run(reference.sample(0)))


def describe_cached(text: str, name: str) -> Task:
    """Return the task of a source from the cache; describe and cache it if it is new."""
    task = cache.load_task(text)
    if task is None:
        task = describe_task(text, name)
        cache.store_task(text, task)
    return task
