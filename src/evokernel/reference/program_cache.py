"""Loads the traced program of a reference: from the cache folder, or by tracing it, which needs torch."""

from __future__ import annotations

import hashlib
import logging
import threading
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from pydantic import ValidationError

from evokernel.core import paths
from evokernel.core.records import Task
from evokernel.reference.program import Program

log = logging.getLogger(__name__)
TRACING = threading.Lock()
"""Only one thread may trace, because tracing temporarily replaces the tensors of a module."""


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
