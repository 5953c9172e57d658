"""First kernels that the user brings: finds the kernel of each task, and stores it as the reply of the task's first attempt.

The loop treats such a reply like that of an interrupted attempt: it verifies the stored kernel and asks no generator. So the kernel is an
attempt like any other, and a resumed run equals a straight one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from evokernel.app.kernel_files import read_candidate, require_kernel_source
from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.plugins import find_plugin
from evokernel.core.records import Candidate, Context, Reply, Stage, Task
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.engine import context_store

log = logging.getLogger(__name__)
MAX_NAMED = 5


def read_start_kernels(config: RunConfig, tasks: Sequence[Task]) -> dict[str, Candidate]:
    """Return the user's first kernel of each task that has one. Raises UserError if a path is unusable or no task matches."""
    if not config.start:
        return {}
    path = Path(config.start)
    if not path.exists():
        raise UserError(f"--start {path} does not exist. Name the file of a kernel, or a folder of kernels named after their tasks.")
    backend = config.plugin_name("backend")
    kernels = {task: read_candidate(file, backend) for task, file in match_tasks(path, tasks, backend).items()}
    for kernel in kernels.values():
        require_kernel_source(kernel, find_plugin("backend", backend))
    return {task: kernel.model_copy(update={"notes": f"start kernel from {path}"}) for task, kernel in kernels.items()}


def match_tasks(path: Path, tasks: Sequence[Task], backend: str) -> dict[str, Path]:
    """Return the kernel file or folder of each task: entries of a folder by name; a single kernel belongs to the only task."""
    is_kernel_folder = path.is_dir() and (path / find_plugin("backend", backend).file_name).is_file()
    if path.is_file() or is_kernel_folder:
        matches = find_named_tasks(path, tasks) or (list(tasks) if len(tasks) == 1 else [])
        if len(matches) != 1:
            raise UserError(
                f"--start {path} is one kernel, but the run has {len(tasks)} tasks: name one task with --tasks, "
                f"or name the file after its task, such as {Path(tasks[0].id).name}{path.suffix}"
            )
        return {matches[0].id: path}
    files: dict[str, Path] = {}
    unmatched = []
    for entry in sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))):
        named_tasks = find_named_tasks(entry, tasks)
        unmatched += [] if named_tasks else [entry.name]
        for task in named_tasks:
            if task.id in files:
                raise UserError(f"--start {path}: {files[task.id].name} and {entry.name} are both named after {task.id}. Keep one of them.")
            files[task.id] = entry
    listed = ", ".join(unmatched[:MAX_NAMED]) + (", ..." if len(unmatched) > MAX_NAMED else "")
    if not files:
        example = f"{Path(tasks[0].id).name}{Path(find_plugin('backend', backend).file_name).suffix}"
        raise UserError(
            f"--start {path}: no file is named after a task ({listed or 'the folder is empty'}). Rename one, such as {example}."
        )
    if unmatched:
        log.warning("--start %s: no task is named like %s; ignored", path, listed)
    return files


def find_named_tasks(path: Path, tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks that a file or folder is named after: `softmax.cpp` belongs to `starter/softmax`."""
    return [task for task in tasks if Path(task.id).name == (path.name if path.is_dir() else path.stem)]


def store_start_kernels(run: Run, kernels: Mapping[str, Candidate]) -> None:
    """Store each kernel as the reply of its task's first attempt, with a context that shows nothing."""
    for task in (task for task in run.tasks if task.id in kernels):
        state = State(task=task)
        context_store.store_context(run, state, Context(stage=Stage.DRAFT))
        run.store_reply(state.next_id, "reply", Reply(candidate=kernels[task.id], text=kernels[task.id].notes))
