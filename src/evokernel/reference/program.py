"""What a reference computes, as the operations PyTorch would be asked for, with the numbers in it that change with the size told apart.

Reading a program needs no torch; tracing does. What was traced is kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from evokernel.core import paths
from evokernel.core.records import Record, Task

log = logging.getLogger(__name__)
TRACING = threading.Lock()
"""One at a time: tracing replaces a module's tensors meanwhile."""


class Ref(Record):
    """A value made before: an argument or a step of the program; `part` is which of its results, where it has several."""

    name: str
    part: int = 0


class Varied(Record):
    """A number that changes with the size: its value at each size traced."""

    at: tuple[float, ...]


Item = Ref | Varied | bool | int | float | str | None
Value = Item | tuple[Item | tuple[Item, ...], ...]
Extent = Varied | int


class Step(Record):
    """One operation: `aten.softmax.int` under a name of its own."""

    name: str
    op: str
    args: tuple[Value, ...]
    settings: dict[str, Value] = {}
    shapes: tuple[tuple[Extent, ...], ...]
    """Of each result."""
    dtypes: tuple[str, ...]


class Argument(Record):
    """A tensor the kernel is given, with its extents at each size."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str


class Program(Record):
    """The operations of a reference in order; first of all sizes is the bench size."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    arguments: tuple[Argument, ...] = ()
    scalars: dict[str, Varied | bool | int | float] = {}
    steps: tuple[Step, ...] = ()
    outputs: tuple[Ref, ...] = ()
    sizes: int = 0
    gap: str = ""
    """Why there is no program, in a few words."""


@lru_cache(maxsize=1024)
def program(source: str, name: str, small: tuple[tuple[str, int], ...]) -> Program:
    """The program of a task's text; `small` as `checking` gives it."""
    place = paths.cache_folder() / "programs" / f"{key(source, small)}.json"
    try:
        return Program.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        pass
    from evokernel.reference.trace import trace

    with TRACING:
        found = trace(source, name, dict(small))
    try:
        paths.write_bytes(place, found.model_dump_json().encode())
    except OSError as error:
        log.debug("traced program not kept: %s", error)
    return found


def program_of(task: Task) -> Program:
    """The program of a task."""
    return program(task.source, task.id, checking(task))


def checking(task: Task) -> tuple[tuple[str, int], ...]:
    """The constants that differ between a task's sizes, as they are when it is checked; 0 where that is as its text has them."""
    sizes = task.sizes
    return tuple((key, sizes.get("small", {}).get(key, 0)) for key in sorted({key for size in sizes.values() for key in size}))


def key(source: str, small: tuple[tuple[str, int], ...]) -> str:
    """By everything that decides what is traced."""
    code = "".join((Path(__file__).parent / file).read_text(encoding="utf-8") for file in ("program.py", "trace.py"))
    text = f"{metadata.version('torch')}\0{code}\0{small}\0{source}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
