"""Tasks out of a model: a file for each of its operators that is worth the effort and can be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from evokernel.app.factory import refuse_too_large
from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.core.run import atomic_write
from evokernel.reference.describe import describe
from evokernel.reference.extract.calls import Unwritable
from evokernel.reference.extract.profiles import Operator, Profile
from evokernel.reference.extract.task_source import excerpt, file_name
from evokernel.reference.module import Reference
from evokernel.tasks import cache

UNFIT = {
    "random": "it draws random numbers",
    "vacuous": "something that computes nothing would pass for it",
}
"""Tags of tasks that no kernel can be judged on."""


class Extracted(NamedTuple):
    """An operator and the task made of it."""

    operator: Operator
    path: Path | None
    reason: str = ""
    """Why there is none."""


def worth(profile: Profile, least: float, most: int) -> list[Operator]:
    """The operators that take at least a share of the model's time, no more than so many."""
    return [operator for operator in profile.operators if operator.share >= least][:most]


def new_folder(folder: Path) -> None:
    """Makes the folder that tasks go to; refuses one with tasks in it, whose ranks would be another's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.py")):
            raise UserError(f"{folder} already holds Python files; remove it, or give another folder with --out")
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}; give another folder with --out") from error


def extract(operators: list[Operator], model: str, folder: Path, told: Callable[[str], None] = lambda _: None) -> Iterator[Extracted]:
    """Writes a task for each operator, once it is known that kernels for it can be judged."""
    for rank, operator in enumerate(operators, start=1):
        path = folder / file_name(operator, rank)
        told(f"making a task of {operator.call.name}")
        try:
            atomic_write(path, judged(operator, model, str(path)))
        except (UserError, Unwritable) as error:
            yield Extracted(operator, None, str(error))
        else:
            yield Extracted(operator, path)


def judged(operator: Operator, model: str, name: str) -> str:
    """A task's text that passes; where inputs like the model's do not tell right from wrong, with their size drawn anew each time."""
    text = excerpt(operator, model)
    task = known(text, name)
    if "vacuous" in task.tags:
        text = excerpt(operator, model, scale=True)
        task = known(text, name)
    if "non-finite" in task.tags and has_nan(text, name, task):
        raise UserError("inputs like the model's, drawn one by one, make it give NaN")
    if unfit := [UNFIT[tag] for tag in task.tags if tag in UNFIT]:
        raise UserError("; ".join(unfit))
    refuse_too_large([task.model_copy(update={"id": Path(name).stem})])
    return text


def has_nan(text: str, name: str, task: Task) -> bool:
    """Whether a task gives NaN; an infinity alone can be matched."""
    reference = Reference(text, name, task.sizes["small"])
    return any(bool(tensor.isnan().any()) for _, tensor in reference.run(reference.sample(0)))


def known(text: str, name: str) -> Task:
    """The task a text defines, kept so that nobody has to find out again."""
    task = cache.get(text)
    if task is None:
        task = describe(text, name)
        cache.put(text, task)
    return task
