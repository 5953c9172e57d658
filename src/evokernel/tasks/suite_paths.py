"""Which suite a task file belongs to, and what that says about its level and category. Reads names and TOML only."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, ValidationError

from evokernel.core.errors import UserError
from evokernel.core.records import Record

FILE = "suite.toml"


class Suite(Record):
    """What `suite.toml` says of the tasks in its folder and below."""

    title: str = ""
    level: int | None = None
    category: str = ""
    """Of every task; else the name of the sub-folder it is in, else its family."""


class Checkout(Record):
    """A published benchmark as its repository lays it out: tasks in sub-folders, the groups, of one folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    folder: str
    """Where its groups are, below the top of the checkout."""
    known_by: str
    """A group that tells it from other folders of that name."""
    groups: list[str]
    """What is read when the whole checkout is asked for."""
    levels: dict[str, int]
    categories: dict[str, str] = {}
    """Of a group's tasks, where neither their family nor the group's own name is meant."""
    named_by_group: bool
    """Whether groups are categories; otherwise they are levels, and each is a suite of its own."""


class Place(NamedTuple):
    """Where a task file belongs."""

    suite: str
    level: int
    category: str
    """Empty where only the task's family can tell."""


@cache
def checkouts() -> dict[str, Checkout]:
    """Benchmarks that are known by their layout."""
    text = (resources.files("evokernel.tasks") / "checkouts.toml").read_text(encoding="utf-8")
    return {name: Checkout.model_validate(one) for name, one in tomllib.loads(text).items()}


def place(path: Path) -> Place:
    """Of a task file: the nearest folder with a `suite.toml` decides, else a checkout that is known, else the folder it lies in."""
    path = path.resolve()
    for folder in path.parents:
        if (folder / FILE).is_file():
            suite = read(folder)
            inside = path.parent.relative_to(folder).parts
            return Place(folder.name, level_of(path) if suite.level is None else suite.level, suite.category or "".join(inside[:1]))
    for name, known in checkouts().items():
        for base in path.parents:
            if is_base(base, known) and path.parent != base:
                return in_checkout(name, known, path.relative_to(base).parts[0])
    return Place(path.parent.name or "tasks", level_of(path), "")


def in_checkout(name: str, known: Checkout, group: str) -> Place:
    """Of a task file in a group of a known checkout."""
    category = known.categories.get(group, group if known.named_by_group else "")
    return Place(name if known.named_by_group else f"{name}-{group}", known.levels.get(group, 1), category)


def is_base(folder: Path, known: Checkout) -> bool:
    """Whether a folder is the one whose sub-folders hold the tasks."""
    return folder.name == known.folder and (folder / known.known_by).is_dir()


def groups(folder: Path) -> list[Path]:
    """The folders to look in for the tasks of a folder: those of a checkout's groups, or just itself."""
    for known in checkouts().values():
        for base in (folder / known.folder, folder):
            if is_base(base.resolve(), known):
                return [base / group for group in known.groups if (base / group).is_dir()]
    return [folder]


def read(folder: Path) -> Suite:
    """What a folder's `suite.toml` says."""
    path = folder / FILE
    try:
        return Suite.model_validate(parsed(path))
    except ValidationError as error:
        first = error.errors()[0]
        wrong = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {wrong}: {first['msg']}; it may hold {', '.join(Suite.model_fields)}") from error


def parsed(path: Path) -> dict[str, Any]:
    """A TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path} cannot be read as TOML: {error}; fix it or remove it") from error


def level_of(path: Path) -> int:
    """What the folder's name says, 1 when it says nothing."""
    found = re.search(r"level[_-]?(\d+)", path.parent.name, re.IGNORECASE)
    return int(found[1]) if found else 1
