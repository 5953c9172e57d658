"""Keeps what the reference of a task file showed, so that it runs once per text. A cache that cannot be used is no error."""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from importlib import metadata, resources
from pathlib import Path

from pydantic import ValidationError

import evokernel
from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.records import Task

log = logging.getLogger(__name__)
NEEDS_TORCH = "reading a task needs PyTorch: pip install 'evokernel[torch]'"


def get(source: str) -> Task | None:
    """What is known of a text; None when nothing is, or when it cannot be read."""
    try:
        return Task.model_validate_json(entry(source).read_bytes())
    except (OSError, ValidationError):
        return None


def put(source: str, task: Task) -> None:
    """Remembers a text's task, if the disk allows."""
    try:
        paths.write_bytes(entry(source), task.model_dump_json().encode())
    except OSError as error:
        log.debug("task cache not written: %s", error)


def entry(source: str) -> Path:
    """Where a text's task is kept."""
    key = hashlib.sha256(f"{toolchain()}\0{source}".encode()).hexdigest()[:32]
    return paths.cache_folder() / "tasks" / f"{key}.json"


@cache
def toolchain() -> str:
    """Everything but the text that decides what a task looks like: torch, this package and the code that derives it."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        raise UserError(NEEDS_TORCH) from error
    code = sorted(Path(str(resources.files("evokernel") / "reference")).glob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()
    return f"{torch} {evokernel.__version__} {digest}"
