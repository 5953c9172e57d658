"""Finds task files by name, path or pattern, and turns them into tasks. Needs torch only for files it has not seen before."""

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
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.plugins import did_you_mean
from evokernel.core.records import Task
from evokernel.tasks import cache, suite_paths
from evokernel.tasks.family import families
from evokernel.tasks.published_format import reference_part

log = logging.getLogger(__name__)
MOST_NAMED = 20


class TaskFile(NamedTuple):
    """A task file as listings show it."""

    id: str
    path: Path
    family: str
    families: tuple[str, ...]
    category: str
    level: int

    def marks(self) -> dict[str, object]:
        """What is known of the task without running its reference."""
        return {"id": self.id, "family": self.family, "families": self.families, "category": self.category, "level": self.level}


def load(spec: str) -> list[Task]:
    """The tasks a specification names, in order, each once: a suite, `suite/name`, `suite/pat*`, a file, a folder, a glob, or several of
    these separated by commas."""
    return [describe(file) for file in files(spec)]


def files(spec: str) -> list[TaskFile]:
    """The task files a specification names, without running anything."""
    parts = [part.strip() for part in spec.split(",") if part.strip()]
    if not parts:
        raise UserError(f"no tasks given; name a suite ({', '.join(suites())}), a .py file, a folder or a pattern")
    found: dict[str, TaskFile] = {}
    for part in parts:
        for path in paths(part):
            file = listed(path)
            other = found.setdefault(file.id, file)
            if other.path.resolve() != file.path.resolve():
                raise UserError(f"two task files would both be called '{file.id}': {other.path} and {file.path}; rename one or its folder")
    return list(found.values())


def suites() -> list[str]:
    """The suites that ship with the package."""
    return sorted(p.name for p in home().iterdir() if p.is_dir() and not p.name.startswith(("_", ".")))


def describe(file: TaskFile) -> Task:
    """The task a file defines; what the reference shows is kept in a cache, so that it runs once per text."""
    source = read(file.path)
    task = cache.get(source)
    if task is None:
        task = derived(file, source)
        cache.put(source, task)
    return task.model_copy(update=file.marks())


def derived(file: TaskFile, source: str) -> Task:
    """The task as its reference shows it, run now."""
    try:
        from evokernel.reference.describe import describe as run
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError(cache.NEEDS_TORCH) from error
    log.info("deriving sizes and signature of %s", file.id)
    return run(source, str(file.path)).model_copy(update=file.marks())


@lru_cache
def home() -> Path:
    """Where the shipped suites are."""
    return Path(str(resources.files("evokernel.tasks")))


def paths(part: str) -> list[Path]:
    """The files one part of a specification names; never empty."""
    suite, _, name = part.partition("/")
    if suite in suites():
        return members(suite, name)
    path = Path(part).expanduser()
    if path.is_dir():
        return in_folder(path)
    if path.is_file():
        if path.suffix != ".py":
            raise UserError(f"'{part}' is no task file: a task is a .py file with Model and get_inputs")
        return [path]
    matches = [Path(match) for match in glob.glob(str(path), recursive=True)]
    if matches:
        tasks = {f: None for match in sorted(matches, key=natural) for f in (in_folder(match) if match.is_dir() else [match]) if is_task(f)}
        if not tasks:
            raise UserError(f"'{part}' matches {len(matches)} files, none of them a task: a task is a .py file with Model and get_inputs")
        return list(tasks)
    if looks_like_path(part):
        raise UserError(f"no file or folder matches '{part}'; give a .py file, a folder or a pattern, or a suite ({', '.join(suites())})")
    raise UserError(
        f"no task suite or file called '{part}'{suggestion(part)}; suites: {', '.join(suites())}; or give a path to a .py file or folder"
    )


def members(suite: str, name: str) -> list[Path]:
    """The files of a shipped suite whose name fits, with or without their category: `level1/relu`, `level1/activation/*`."""
    wanted = name.rstrip("/").removesuffix(".py") or "*"
    inside = shipped(suite)
    found = [
        path
        for path, label in inside.items()
        if fnmatchcase(label, wanted) or label.startswith(f"{wanted}/") or ("/" not in wanted and fnmatchcase(path.stem, wanted))
    ]
    if not found:
        names = [path.stem for path in inside]
        near = did_you_mean(wanted, [*names, *inside.values()])
        shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
        raise UserError(f"suite '{suite}' has no task '{name}'{near}; it has: {shown}")
    return found


@lru_cache
def shipped(suite: str) -> dict[Path, str]:
    """The files of a shipped suite, each with its category and name; looked at once, as somebody may ask for each by its name."""
    folder = home() / suite
    return {path: path.relative_to(folder).with_suffix("").as_posix() for path in in_folder(folder)}


def in_folder(folder: Path) -> list[Path]:
    """Every task file in a folder and below, in the order of names and numbers; of a known checkout, those that are meant as tasks."""
    try:
        found = sorted((path for part in suite_paths.groups(folder) for path in part.rglob("*.py")), key=natural)
    except OSError as error:
        raise UserError(f"folder {folder} cannot be read: {error.strerror or error}; check its permissions") from error
    hidden = [p for p in found if any(part.startswith(("_", ".")) for part in p.relative_to(folder).parts)]
    tasks = [p for p in found if p not in hidden and is_task(p)]
    if not tasks:
        raise UserError(f"no task files in {folder}: a task is a .py file with Model and get_inputs")
    return tasks


def is_task(path: Path) -> bool:
    """Whether a file found by searching defines `Model`; one that cannot be parsed counts, so that its error is seen."""
    if path.suffix != ".py" or not path.is_file():
        return False
    try:
        tree = ast.parse(read(path))
    except (SyntaxError, ValueError):
        return True
    found = any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in tree.body)
    if not found:
        log.info("%s defines no Model: not a task", path)
    return found


def listed(path: Path) -> TaskFile:
    """What a listing shows of a file."""
    source = read(path)
    try:
        found = families(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UserError(f"task file {path}{line}: reading it raised {type(error).__name__}: {said}; fix the task file") from error
    where = suite_paths.place(path)
    category = found.category or where.category or found.main
    return TaskFile(f"{word(where.suite)}/{word(path.stem)}", path, found.main, found.parts, category, where.level)


def read(path: Path) -> str:
    """A task file's text, without a solution that stands beside the reference."""
    try:
        return reference_part(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise UserError(f"task file {path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"task file {path} cannot be read: {error.strerror or error}; check the path and its permissions") from error


def natural(path: Path) -> list[tuple[int, str]]:
    """A key that puts `2_x` before `10_x`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def word(text: str) -> str:
    """Text as part of an id, which also names folders."""
    return re.sub(r"[^\w.-]", "_", text)


def looks_like_path(part: str) -> bool:
    """Whether someone who wrote this meant files, not a suite."""
    return part.startswith((".", "/", "~")) or part.endswith(".py") or any(mark in part for mark in "*?[") or os.sep in part


def suggestion(part: str) -> str:
    """The nearest suite, or the tasks of that name inside them."""
    names = suites()
    inside = [f"{suite}/{path.stem}" for suite in names for path in in_folder(home() / suite)]
    exact = [label for label in inside if label.partition("/")[2] == part]
    return f" (did you mean {' or '.join(map(repr, exact))}?)" if exact else did_you_mean(part, [*names, *inside])
