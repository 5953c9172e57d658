"""Finds task files by name, path or pattern, and loads them as tasks. Needs torch only for files that are not in the cache."""

from __future__ import annotations

import ast
import glob
import logging
import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.labels import format_count
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Task, TimedSize
from evokernel.suites import cache, suite_paths
from evokernel.suites.family import classify_operator
from evokernel.suites.published_format import extract_reference

log = logging.getLogger(__name__)
MAX_NAMES_SHOWN = 20
BACKWARD = ":backward"
"""Ends a specification that names the backward pass of its tasks."""


class TaskFile(NamedTuple):
    """A task file with everything that is known without running it."""

    id: str
    path: Path
    family: str
    families: tuple[str, ...]
    category: str
    level: int
    timed_size: TimedSize = "full"
    """The largest size at which the task is timed unless the user chooses one."""
    is_backward: bool = False
    """Whether the task is the backward pass of the file."""

    @property
    def spec(self) -> str:
        """The path of the file, followed by `:backward` if the task is its backward pass."""
        return f"{self.path}{BACKWARD if self.is_backward else ''}"

    def metadata(self) -> dict[str, object]:
        """Return the fields of the task that are known without running its reference."""
        return {"id": self.id, "family": self.family, "families": self.families, "category": self.category, "level": self.level}


def load_tasks(spec: str, size: TimedSize = "laptop") -> list[Task]:
    """Load the tasks that a specification names, in order and without repetition: a suite, `suite/name`, `suite/pat*`, a file, a folder, a
    glob, or several of these separated by commas; `:backward` after any of them names the backward passes. `size` is the one at which
    kernels are timed."""
    return [describe_task(file, size) for file in find_task_files(spec)]


def find_task_files(spec: str) -> list[TaskFile]:
    """Return the task files that a specification names, without running them."""
    parts = [part.strip() for part in spec.split(",") if part.strip()]
    if not parts:
        raise UserError(f"no tasks given. Name a suite ({', '.join(suite_names())}), a .py file, a folder or a pattern.")
    files_by_id: dict[str, TaskFile] = {}
    for part in parts:
        for file in resolve_files(part):
            other = files_by_id.setdefault(file.id, file)
            if other.path.resolve() != file.path.resolve():
                raise UserError(f"two task files have the id '{file.id}': {other.path} and {file.path}. Rename one of them or its folder.")
    return list(files_by_id.values())


def suite_names() -> list[str]:
    """Return the names of the suites in this package."""
    return sorted(p.name for p in suites_folder().iterdir() if p.is_dir() and not p.name.startswith(("_", ".")))


def describe_task(file: TaskFile, size: TimedSize = "laptop") -> Task:
    """Return the task that a file defines at a size, from the cache or by running its reference.

    A file whose suite declares no size `full` has only one size: its own.
    """
    full = suite_paths.find_full_size(file.path) if size == "full" else None
    task = load_cached_task(file, full)
    if task is None:
        source = read_source(file.path)
        task = derive_task(file, source) if full is None else enlarge_task(file, describe_task(file), full)
        cache.store_task(cache_text(file, source, full), task)
    return task.model_copy(update=file.metadata())


def load_cached_task(file: TaskFile, full: dict[str, int] | None = None) -> Task | None:
    """Return the task that a file defines if it is in the cache."""
    return cache.load_task(cache_text(file, read_source(file.path), full))


def cache_text(file: TaskFile, source: str, full: dict[str, int] | None) -> str:
    """Return the text under which the cache keeps a task."""
    return f"{source}{BACKWARD if file.is_backward else ''}{'' if full is None else sorted(full.items())}"


def derive_task(file: TaskFile, source: str) -> Task:
    """Derive the task by running its reference; `source` is the text of its file."""
    log.info("deriving sizes and signature of %s", file.id)
    if file.is_backward:
        forward = describe_task(file._replace(is_backward=False))
        from evokernel.reference.backward import derive_backward_source  # describing the forward pass has found torch

        source = derive_backward_source(source, forward, str(file.path))
    task: Task = import_describe().describe_task(source, file.spec)
    return task.model_copy(update=file.metadata())


def enlarge_task(file: TaskFile, task: Task, full: dict[str, int]) -> Task:
    """Derive the task at size `full`, from shapes only."""
    log.info("deriving size full of %s", file.id)
    large_task: Task = import_describe().enlarge_task(task, file.spec, full)
    return large_task


def import_describe() -> ModuleType:
    """Import the module that runs references. Raises UserError if PyTorch is missing."""
    try:
        from evokernel.reference import describe
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError(cache.NEEDS_TORCH) from error
    return describe


@lru_cache
def suites_folder() -> Path:
    """Return the folder of the suites in this package."""
    return Path(str(resources.files("evokernel.suites")))


def resolve_files(part: str) -> list[TaskFile]:
    """Return the tasks that one part of a specification names. Raises UserError if there are none."""
    forward = part.removesuffix(BACKWARD)
    suite, _, name = forward.partition("/")
    folder, name = (suites_folder() / suite, name) if suite in suite_names() else (Path(forward).expanduser(), "")
    if suite_paths.lists_backward_passes(folder):
        files = find_backward_passes(folder, name)
    else:
        files = [read_task_file(path) for path in resolve_paths(forward)]
    if forward == part:
        return files
    if files[0].is_backward:
        raise UserError(f"'{files[0].id}' is a backward pass already. Give its name without '{BACKWARD}'.")
    return [file._replace(id=f"{file.id}{BACKWARD}", is_backward=True) for file in files]


def find_backward_passes(folder: Path, name: str) -> list[TaskFile]:
    """Return the tasks of a suite of backward passes whose names or categories match."""
    pattern = name.rstrip("/").removesuffix(".py") or "*"
    files = list_backward_passes(folder)
    names = [file.id.partition("/")[2] for file in files]
    matches = [file for file, one in zip(files, names) if fnmatchcase(one, pattern)] or [file for file in files if file.category == pattern]
    if not matches:
        raise no_such_task(folder.name, name, names, [])
    return matches


@lru_cache
def list_backward_passes(folder: Path) -> tuple[TaskFile, ...]:
    """Return all tasks of a suite of backward passes; each is named like its forward pass."""
    suite = suite_paths.read_suite(folder)
    files = [file for spec in suite.backward for file in resolve_files(f"{spec}{BACKWARD}")]
    return tuple(
        file._replace(
            id=f"{to_id_part(folder.resolve().name)}/{file.id.partition('/')[2].removesuffix(BACKWARD)}",
            level=file.level if suite.level is None else suite.level,
            category=suite.category or file.category,
        )
        for file in files
    )


def resolve_paths(part: str) -> list[Path]:
    """Return the files that one part of a specification names. Raises UserError if there are none."""
    suite, _, name = part.partition("/")
    if suite in suite_names():
        return find_in_suite(suite, name)
    path = Path(part).expanduser()
    if path.is_dir():
        return find_in_folder(path)
    if path.is_file():
        if path.suffix != ".py":
            raise UserError(f"'{part}' is not a task file. A task is a .py file that defines Model and get_inputs.")
        return [path]
    matches = [Path(match) for match in glob.glob(str(path), recursive=True)]
    if matches:
        tasks = {
            f: None
            for match in sorted(matches, key=natural_sort_key)
            for f in (find_in_folder(match) if match.is_dir() else [match])
            if is_task_file(f)
        }
        if not tasks:
            count = "1 file, which is not a task" if len(matches) == 1 else f"{len(matches)} files, none of them a task"
            raise UserError(f"'{part}' matches {count}. A task is a .py file that defines Model and get_inputs.")
        return list(tasks)
    if looks_like_path(part):
        raise UserError(
            f"no file or folder matches '{part}'. Give a .py file, a folder, a pattern or a suite ({', '.join(suite_names())})."
        )
    raise UserError(
        f"no task suite or file called '{part}'{suggest_names(part)}; suites: {', '.join(suite_names())}; or give a .py file or a folder"
    )


def find_in_suite(suite: str, name: str) -> list[Path]:
    """Return the files of a suite of this package whose names match, with or without category: `level1/relu`, `level1/activation/*`."""
    pattern = name.rstrip("/").removesuffix(".py") or "*"
    inside = list_suite_files(suite)
    matches = [
        path
        for path, label in inside.items()
        if fnmatchcase(label, pattern) or label.startswith(f"{pattern}/") or ("/" not in pattern and fnmatchcase(path.stem, pattern))
    ]
    if not matches:
        raise no_such_task(suite, name, [path.stem for path in inside], [*inside.values()])
    return matches


def no_such_task(suite: str, name: str, names: list[str], labels: list[str]) -> UserError:
    """The error for a name that a suite lacks; `labels` are names with category."""
    hint = did_you_mean(name.rstrip("/").removesuffix(".py"), [*names, *labels])
    more = f" and {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    return UserError(f"suite '{suite}' has no task '{name}'{hint}; its tasks: {', '.join(names[:MAX_NAMES_SHOWN])}{more}")


@lru_cache
def list_suite_files(suite: str) -> dict[Path, str]:
    """Return the files of a suite of this package with category and name; cached, because a caller may ask for each task by name."""
    folder = suites_folder() / suite
    return {path: path.relative_to(folder).with_suffix("").as_posix() for path in find_in_folder(folder)}


def find_in_folder(folder: Path) -> list[Path]:
    """Return every task file in a folder and its subfolders in natural order; for a known checkout, only its task groups."""
    try:
        python_files = sorted(
            (path for part in suite_paths.list_group_folders(folder) for path in part.rglob("*.py")), key=natural_sort_key
        )
    except OSError as error:
        raise UserError(f"cannot read folder {folder}: {error.strerror or error}. Check its permissions.") from error
    hidden = [p for p in python_files if any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts)]
    tasks = [p for p in python_files if p not in hidden and is_task_file(p)]
    if not tasks:
        raise UserError(f"{folder} contains no task files. A task is a .py file that defines Model and get_inputs.")
    return tasks


def is_task_file(path: Path) -> bool:
    """Return whether a file defines `Model`; a file that cannot be parsed counts, so that its error is reported later."""
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        tree = ast.parse(read_source(path))
    except (SyntaxError, ValueError):
        return True
    defines_model = any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in tree.body)
    if not defines_model:
        log.info("%s does not define Model: not a task", path)
    return defines_model


def read_task_file(path: Path) -> TaskFile:
    """Read a task file and classify its operator, without running it."""
    source = read_source(path)
    try:
        families = classify_operator(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UserError(f"task file {path}{line}: parsing it raised {type(error).__name__}: {message}; fix the task file") from error
    where = suite_paths.locate_task(path)
    category = families.category or where.category or families.main
    id = f"{to_id_part(where.suite)}/{to_id_part(path.stem)}"
    return TaskFile(id, path, families.main, families.parts, category, where.level, where.timed_size)


def read_source(path: Path) -> str:
    """Read the source of a task file, without a solution that follows the reference."""
    try:
        return extract_reference(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"task file {path} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    except OSError as error:
        raise UserError(f"cannot read task file {path}: {error.strerror or error}. Check the path and its permissions.") from error


def natural_sort_key(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that orders `2_x` before `10_x`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def to_id_part(text: str) -> str:
    """Replace characters that an id, which also names folders, must not contain."""
    return re.sub(r"[^\w.-]", "_", text)


def looks_like_path(part: str) -> bool:
    """Return whether a specification looks like a path instead of a suite."""
    return part.startswith((".", "/", "~")) or part.endswith(".py") or any(mark in part for mark in "*?[") or os.sep in part


def suggest_names(part: str) -> str:
    """Return a hint with the tasks of this name, or the most similar suite or task."""
    names = suite_names()
    inside = [file.id for suite in names for file in resolve_files(suite)]
    exact = [label for label in inside if label.partition("/")[2] == part]
    return f" (did you mean {' or '.join(map(repr, exact))}?)" if exact else did_you_mean(part, [*names, *inside])


def select_task_files(spec: str, level: int | None, category: str) -> list[TaskFile]:
    """Return the task files that a pattern and the filters select; the pattern `all` selects every suite."""
    files = find_task_files(",".join(suite_names()) if spec == "all" else spec)
    selected = [file for file in files if (level is None or file.level == level) and category in ("", file.category)]
    if not selected and category and category not in {file.category for file in files}:
        categories = sorted({file.category for file in files})
        raise UserError(
            f"none of {format_count(len(files), 'task')} has category '{category}'{did_you_mean(category, categories)}. "
            f"Categories: {', '.join(categories)}."
        )
    if not selected:
        raise UserError(f"none of {format_count(len(files), 'task')} has level {level}. Levels: {', '.join(map(str, list_levels(files)))}.")
    return selected


def list_levels(files: list[TaskFile]) -> list[int]:
    """Return the levels of the files, sorted."""
    return sorted({file.level for file in files})
