"""Tasks in the Python API: `ek.task` and `ek.tasks`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.api.views import TableView
from evokernel.core.errors import UserError
from evokernel.core.records import Signature, TimedSize, Work
from evokernel.core.records import Task as TaskRecord
from evokernel.reports.formatting import format_bytes
from evokernel.reports.tables import Column, Table
from evokernel.reports.task_report import format_tensor, task_record, task_rows
from evokernel.suites.loader import describe_task, find_task_files, load_cached_task, resolve_files

if TYPE_CHECKING:
    from evokernel.suites.loader import TaskFile


class Task(TableView):
    """An operator at given sizes: a PyTorch reference with its inputs. It shows its signature, its sizes and its work.

    Attributes:
        id: The task's name: `suite/name`, or the name of its file.
        spec: The specification that loads this task again, for `evokernel verify --task` too; None for a task of a run.
        size: The timed size that was chosen: `laptop` or `full`; None if the backend decides.
        data: The complete record, as runs store it.
    """

    def __init__(self, data: TaskRecord, spec: str | None, size: TimedSize | None = None) -> None:
        self.data, self.spec, self.size = data, spec, size

    @property
    def id(self) -> str:
        """The task's name: `suite/name`, or the name of its file."""
        return self.data.id

    @property
    def signature(self) -> Signature:
        """The arguments of a kernel for this task: `inputs`, `params`, `scalars` and `outputs`."""
        return self.data.signature

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The sizes at which kernels are checked, as values of the reference's constants. The hidden size is left out."""
        return {name: dict(values) for name, values in self.data.sizes.items() if name != "held_out"}

    @property
    def work(self) -> Work:
        """The minimum work of a kernel: `flops` and `bytes`."""
        return self.data.work

    @property
    def source(self) -> str:
        """The Python source of the reference."""
        return self.data.source

    def record(self, backend: str | None = None) -> dict[str, Any]:
        """Return what a kernel for this task must do, as JSON; with a backend, its entry point too.

        Args:
            backend: Name of a backend, such as `cpp`.
        """
        return task_record(self.data, backend)

    def entry_point(self, backend: str) -> str:
        """Return the signature of the function that a kernel must define.

        Args:
            backend: Name of a backend, such as `cpp`.
        """
        return str(self.record(backend)["entry_point"])

    def tables(self) -> list[Table]:
        """Return the table that shows this task, as data."""
        return [Table(self.id, (Column("property"), Column("value")), tuple(task_rows(self.record())[1:]))]


class TaskList(list[Task], TableView):
    """Tasks, shown as a table with one row each."""

    def __repr__(self) -> str:
        return TableView.__repr__(self)

    def tables(self) -> list[Table]:
        """Return the table that shows these tasks, as data."""
        columns = (Column("task"), Column("category"), Column("level", "count"), Column("inputs"), Column("outputs"), Column("work"))
        return [Table(f"Tasks: {len(self)}", columns, tuple(map(task_row, self)))]


def task_row(task: Task) -> tuple[str, str, int, str, str, str]:
    """Return a task's row in a list of tasks."""
    data = task.data
    inputs, outputs = (" ".join(map(format_tensor, tensors)) for tensors in (data.signature.inputs, data.signature.outputs))
    return data.id, data.category, data.level, inputs, outputs, f"{data.work.flops / 1e6:.3g} Mflop, {format_bytes(data.work.bytes)}"


def task(spec: str | os.PathLike[str] | Task, size: TimedSize | None = None) -> Task:
    """Load one task. For a new task, PyTorch runs the reference once; meanwhile the worker of the first verification starts.

    Args:
        spec: `suite/name` such as `starter/softmax`, or the path of a .py file with a PyTorch reference; `:backward` after
            either names its backward pass.
        size: The size at which kernels are timed, `laptop` or `full`. By default the task is shown at size `laptop`, and
            the backend of a later verification decides.

    Returns:
        The task. A notebook shows its signature, its sizes and its work.

    Raises:
        UserError: There is no such task, several match, or its file cannot be used.
    """
    if isinstance(spec, Task):
        return task(spec.spec, size or spec.size) if spec.spec else spec
    text = as_spec(spec)
    files = find_task_files(text)
    if len(files) != 1:
        raise UserError(f"'{text}' names {len(files)} tasks. Name one, such as {files[0].id}, or list them with tasks().")
    if load_cached_task(files[0]) is None:
        from evokernel.api.workers import shared_pool

        shared_pool()
    return load_task(files[0], size)


def tasks(pattern: str | os.PathLike[str] = "starter", size: TimedSize | None = None) -> TaskList:
    """Load all tasks that a pattern names.

    Args:
        pattern: A suite such as `starter`, `suite/name`, a file, a folder or a glob; separate several with commas.
        size: The size at which kernels are timed, as for `task`.

    Returns:
        A list of tasks, which a notebook shows as a table.

    Raises:
        UserError: There is no such task, or a file cannot be used.
    """
    return TaskList(load_task(file, size) for file in find_task_files(as_spec(pattern)))


def as_spec(spec: str | os.PathLike[str]) -> str:
    """Return a specification of tasks as text. Raises UserError if it is something else."""
    if not isinstance(spec, str | os.PathLike):
        raise UserError(f"a task is 'suite/name' or the path of a .py file, not {type(spec).__name__}.")
    return os.fspath(spec)


def load_task(file: TaskFile, size: TimedSize | None) -> Task:
    """Load the task of one file. Its specification also works from another folder."""
    return Task(describe_task(file, size or "laptop"), task_spec(file), size)


def task_spec(file: TaskFile) -> str:
    """Return a specification that names this file wherever it is used: the id of a shipped task, or an absolute path."""
    try:
        matches = resolve_files(file.id)
    except UserError:
        matches = []
    if [one.path.resolve() for one in matches] == [file.path.resolve()]:
        return file.id
    return str(Path(file.spec).resolve())
