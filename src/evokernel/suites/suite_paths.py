"""Finds the suite, level and category of a task file from folder names and `suite.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, ValidationError

from evokernel.core.errors import UserError
from evokernel.core.records import Record, TimedSize

SUITE_FILE = "suite.toml"


class Suite(Record):
    """Contents of `suite.toml`; they apply to all tasks in its folder and subfolders."""

    title: str = ""
    level: int | None = None
    category: str = ""
    """Category of every task. If empty: the name of the task's subfolder, or else its family."""
    timed_size: TimedSize = "full"
    """The largest size at which tasks are timed unless the user chooses one; `laptop` keeps a first run short."""
    full: dict[str, dict[str, int]] = {}
    """Constants of each task at size `full`, by the name of its file. The constants in the files are those of size `laptop`."""
    backward: tuple[str, ...] = ()
    """Tasks elsewhere whose backward passes are the tasks of this suite, as `--tasks` names them."""


class Checkout(Record):
    """Layout of a published benchmark's repository: one folder with a subfolder per group of tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    folder: str
    """Folder of the groups, relative to the top of the checkout."""
    marker_folder: str
    """A group by which the benchmark is recognised."""
    groups: list[str]
    """Groups to read if the user names the complete checkout."""
    levels: dict[str, int]
    """Level of each group."""
    categories: dict[str, str] = {}
    """Category of a group's tasks, if it is neither their family nor the name of the group."""
    groups_are_categories: bool
    """Whether groups are categories of one suite; otherwise each group is a level and a separate suite."""


class TaskOrigin(NamedTuple):
    """Suite, level and category of a task file."""

    suite: str
    level: int
    category: str
    """Empty if the task's family is its category."""
    timed_size: TimedSize = "full"
    """The largest size at which the task is timed unless the user chooses one."""


@cache
def load_checkouts() -> dict[str, Checkout]:
    """Return the benchmarks that are recognised by their layout."""
    text = (resources.files("evokernel.suites") / "checkouts.toml").read_text(encoding="utf-8")
    return {name: Checkout.model_validate(one) for name, one in tomllib.loads(text).items()}


def locate_task(path: Path) -> TaskOrigin:
    """Return the origin of a task file: from the nearest `suite.toml`, or else a known checkout, or else its folder name."""
    path = path.resolve()
    for folder in path.parents:
        if (folder / SUITE_FILE).is_file():
            suite = read_suite(folder)
            inside = path.parent.relative_to(folder).parts
            level = level_from_folder_name(path) if suite.level is None else suite.level
            return TaskOrigin(folder.name, level, suite.category or "".join(inside[:1]), suite.timed_size)
    for name, checkout in load_checkouts().items():
        for base in path.parents:
            if is_tasks_folder(base, checkout) and path.parent != base:
                return locate_in_checkout(name, checkout, path.relative_to(base).parts[0])
    return TaskOrigin(path.parent.name or "tasks", level_from_folder_name(path), "")


def find_full_size(path: Path) -> dict[str, int] | None:
    """Return the constants of a task file at size `full`, which its suite declares; None if the suite declares none."""
    path = path.resolve()
    folder = next((folder for folder in path.parents if (folder / SUITE_FILE).is_file()), None)
    return read_suite(folder).full.get(path.stem) if folder else None


def locate_in_checkout(name: str, checkout: Checkout, group: str) -> TaskOrigin:
    """Return the origin of a task file in a group of a known checkout."""
    category = checkout.categories.get(group, group if checkout.groups_are_categories else "")
    return TaskOrigin(name if checkout.groups_are_categories else f"{name}-{group}", checkout.levels.get(group, 1), category)


def is_tasks_folder(folder: Path, checkout: Checkout) -> bool:
    """Return whether a folder is the one with the checkout's groups."""
    return folder.name == checkout.folder and (folder / checkout.marker_folder).is_dir()


def list_group_folders(folder: Path) -> list[Path]:
    """Return the folders to search for tasks: the groups of a known checkout, or the folder itself."""
    for checkout in load_checkouts().values():
        for base in (folder / checkout.folder, folder):
            if is_tasks_folder(base.resolve(), checkout):
                return [base / group for group in checkout.groups if (base / group).is_dir()]
    return [folder]


def lists_backward_passes(folder: Path) -> bool:
    """Return whether the `suite.toml` of a folder lists backward passes of other tasks."""
    return (folder / SUITE_FILE).is_file() and bool(read_suite(folder).backward)


def read_suite(folder: Path) -> Suite:
    """Read the `suite.toml` of a folder."""
    path = folder / SUITE_FILE
    try:
        return parse_suite(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}. Fix or remove it.") from error


@cache
def parse_suite(path: Path, modified_ns: int) -> Suite:
    """Read a `suite.toml`; cached until the file changes."""
    try:
        return Suite.model_validate(read_toml(path))
    except ValidationError as error:
        first = error.errors()[0]
        wrong = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {wrong}: {first['msg']}; allowed keys: {', '.join(Suite.model_fields)}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"cannot read {path} as TOML: {error}. Fix or remove it.") from error


def level_from_folder_name(path: Path) -> int:
    """Return the level in the folder's name; 1 if there is none."""
    match = re.search(r"level[_-]?(\d+)", path.parent.name, re.IGNORECASE)
    return int(match[1]) if match else 1
