"""The tasks as a data set with splits that are cut between operator families, so that no sibling of a test task is trained on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evokernel.app.factory import load_sized_tasks
from evokernel.core.config import resolve_config
from evokernel.core.records import Task
from evokernel.core.seeds import seed_from_text
from evokernel.generators.prompting import build_first_prompt
from evokernel.rl.requirements import require_packages
from evokernel.suites.loader import TaskFile, find_task_files, suite_names

if TYPE_CHECKING:
    from datasets import DatasetDict

SPLITS: Mapping[str, float] = {"train": 0.7, "validation": 0.1, "test": 0.2}
"""Share of the tasks that each split should have. Families are never cut, so that the shares are approximate."""
COLUMNS = ("prompt", "task", "backend", "family", "group", "suite", "level")
FUSED = "fuse"
HEAVY_FAMILIES = ("attention", "convolution", "matmul", "recurrent", "scan")
"""A fused operator belongs to the first of these families that it contains."""


def load_task_splits(tasks: str = "starter", backend: str = "cpp", *, size: str | None = None, seed: int = 0) -> DatasetDict:
    """Return the tasks that a specification names as a `datasets.DatasetDict` with the splits train, validation and test.

    Columns: `prompt` (messages), `task`, `backend`, `family`, `group` (the unit of the split), `suite`, `level`. Equal arguments give equal
    splits on every machine. Raises UserError if the extra `rl` is not installed.
    """
    require_packages("datasets")
    from datasets import Dataset, DatasetDict

    files = find_task_files(tasks)
    config = resolve_config(None, base={"backend": {"name": backend}}, size=size)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SPLITS}
    split_of = assign_splits(files, seed)
    for file, task in zip(files, load_sized_tasks(config, tasks), strict=True):
        rows[split_of[sibling_group(file)]].append(task_row(file, task, backend))
    return DatasetDict({name: Dataset.from_dict({key: [row[key] for row in part] for key in COLUMNS}) for name, part in rows.items()})


def task_row(file: TaskFile, task: Task, backend: str) -> dict[str, Any]:
    """One task: the prompt of a first draft without memory, and what the reward needs."""
    return {
        "prompt": [{"role": "user", "content": build_first_prompt(task, backend)}],
        "task": task_spec(file),
        "backend": backend,
        "family": task.family,
        "group": sibling_group(file),
        "suite": task.id.partition("/")[0],
        "level": task.level,
    }


def task_spec(file: TaskFile) -> str:
    """How a verification names the task: its id if it is in a suite, otherwise its path."""
    return file.id if file.id.partition("/")[0] in suite_names() else file.spec


def sibling_group(file: TaskFile) -> str:
    """The operator family; for a fused operator, the family of its heaviest part."""
    if file.family != FUSED:
        return file.family
    return next((name for name in HEAVY_FAMILIES if name in file.families), file.families[0] if file.families else FUSED)


def assign_splits(files: Sequence[TaskFile], seed: int = 0) -> dict[str, str]:
    """Give each group of siblings to the split that lacks most tasks, largest group first; equal groups in an order that `seed` decides."""
    counts: dict[str, int] = defaultdict(int)
    for file in files:
        counts[sibling_group(file)] += 1
    order = sorted(counts, key=lambda name: (-counts[name], seed_from_text(f"{seed}/{name}")))
    missing = {name: share * len(files) for name, share in SPLITS.items()}
    result = {}
    for group in order:
        split = max(missing, key=lambda name: missing[name])
        missing[split] -= counts[group]
        result[group] = split
    return result
