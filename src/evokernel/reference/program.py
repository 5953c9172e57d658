"""The operations of a reference as records, in which numbers that depend on the size are marked.

Reading a program needs no torch; tracing does. Traced programs are stored in the cache folder.
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
"""Only one thread may trace, because tracing temporarily replaces the tensors of a module."""


class ValueRef(Record):
    """Reference to an earlier value: an argument or a step of the program."""

    name: str
    result_index: int = 0
    """Index of the result, for a step with several results."""


class SizeDependent(Record):
    """A number that depends on the size: its value at each traced size."""

    values: tuple[float, ...]


Item = ValueRef | SizeDependent | bool | int | float | str | None
Value = Item | tuple[Item | tuple[Item, ...], ...]
Extent = SizeDependent | int


class Step(Record):
    """One operation, such as `aten.softmax.int`, with a unique name."""

    name: str
    op: str
    args: tuple[Value, ...]
    settings: dict[str, Value] = {}
    shapes: tuple[tuple[Extent, ...], ...]
    """Shape of each result."""
    dtypes: tuple[str, ...]


class Argument(Record):
    """A tensor argument of the kernel, with its extents at each size."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str


class Program(Record):
    """The operations of a reference in order. The first of its sizes is the bench size."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    arguments: tuple[Argument, ...] = ()
    scalars: dict[str, SizeDependent | bool | int | float] = {}
    steps: tuple[Step, ...] = ()
    outputs: tuple[ValueRef, ...] = ()
    sizes: int = 0
    """Number of traced sizes."""
    unsupported_reason: str = ""
    """Why the reference could not be traced; empty if it was."""


@lru_cache(maxsize=1024)
def load_program(source: str, name: str, small: tuple[tuple[str, int], ...]) -> Program:
    """Return the program of a task's source, from the cache or by tracing; `small` is the result of `checking_constants`."""
    path = paths.cache_folder() / "programs" / f"{cache_key(source, small)}.json"
    try:
        return Program.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        pass
    from evokernel.reference.trace import trace_program

    with TRACING:
        program = trace_program(source, name, dict(small))
    try:
        paths.write_bytes(path, program.model_dump_json().encode())
    except OSError as error:
        log.debug("traced program not stored: %s", error)
    return program


def load_task_program(task: Task) -> Program:
    """Return the program of a task."""
    return load_program(task.source, task.id, checking_constants(task))


def checking_constants(task: Task) -> tuple[tuple[str, int], ...]:
    """Return the constants that differ between a task's sizes, with their values at the checking size; 0: as in the source."""
    sizes = task.sizes
    return tuple((key, sizes.get("small", {}).get(key, 0)) for key in sorted({key for size in sizes.values() for key in size}))


def cache_key(source: str, small: tuple[tuple[str, int], ...]) -> str:
    """Return a hash of everything that determines the traced program."""
    code = "".join((Path(__file__).parent / file).read_text(encoding="utf-8") for file in ("program.py", "trace.py"))
    text = f"{metadata.version('torch')}\0{code}\0{small}\0{source}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
