"""Caches the Task of each task file, so that its reference runs only once per source. An unusable cache is not an error."""

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
NEEDS_TORCH = "loading a task needs PyTorch. Install it with: pip install 'evokernel[torch]'"


def load_task(source: str) -> Task | None:
    """Return the cached task of a source; None if there is none, or if it cannot be read."""
    try:
        return Task.model_validate_json(cache_path(source).read_bytes())
    except (OSError, ValidationError):
        return None


def store_task(source: str, task: Task) -> None:
    """Store the task of a source; ignores disk errors."""
    try:
        paths.write_bytes(cache_path(source), task.model_dump_json().encode())
    except OSError as error:
        log.debug("task cache not written: %s", error)


def cache_path(source: str) -> Path:
    """Return the cache file of a source."""
    key = hashlib.sha256(f"{cache_version()}\0{source}".encode()).hexdigest()[:32]
    return paths.cache_folder() / "tasks" / f"{key}.json"


@cache
def cache_version() -> str:
    """Return everything besides the source that determines a task: versions of torch and this package, and a hash of `reference`."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError as error:
        raise UserError(NEEDS_TORCH) from error
    code = sorted(Path(str(resources.files("evokernel") / "reference")).glob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()
    return f"{torch} {evokernel.__version__} {digest}"
