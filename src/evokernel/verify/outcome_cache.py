"""Keeps the verdicts of backends that always give the same one, so that no candidate is verified twice.

A store that cannot be used is no error.
"""

from __future__ import annotations

import hashlib
import json
import logging
from functools import cache
from pathlib import Path

from pydantic import ValidationError

import evokernel
from evokernel.core import paths
from evokernel.core.protocols import Backend
from evokernel.core.records import Job, Outcome, Usage

log = logging.getLogger(__name__)
PASSING = ("timeout", "build_timeout", "memory", "killed", "crash", "exit")
"""Reasons that may lie in the moment and not in the candidate."""

CODE = (".py", ".toml", ".json", ".c", ".cpp", ".h")


def load_outcome(job: Job, backend: Backend, versions: dict[str, str]) -> Outcome | None:
    """What was found before, by the same code and toolchain, about the same candidate; None when nothing was."""
    if job.ignore_cache or not is_repeatable(job, backend):
        return None
    try:
        return Outcome.model_validate_json(entry(job, backend, versions).read_bytes())
    except (OSError, ValidationError):
        return None


def store_outcome(job: Job, backend: Backend, outcome: Outcome) -> None:
    """Remembers a verdict that would be the same again, if the disk allows."""
    if not is_repeatable(job, backend) or (outcome.failure and outcome.failure.reason in PASSING):
        return
    if outcome.feasible and not outcome.baseline_us:
        return  # it may only have been too slow to find today
    try:
        free = outcome.model_copy(update={"usage": Usage()})  # a model is paid once
        paths.write_bytes(entry(job, backend, outcome.versions), free.model_dump_json().encode())
    except OSError as error:
        log.debug("verdict not kept: %s", error)


def is_repeatable(job: Job, backend: Backend) -> bool:
    """Whether verifying again could only give the same."""
    return job.clock == "auto" and bool(getattr(backend, "repeatable", False))


def entry(job: Job, backend: Backend, versions: dict[str, str]) -> Path:
    """Where a verdict is kept: named after everything that decides it."""
    told = job.model_dump(mode="json", exclude={"candidate", "timeout_s", "timing_s", "incumbent", "again"})
    text = json.dumps([code(type(backend).__module__), versions, told, sorted(job.candidate.files.items())], sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()
    return paths.cache_folder() / "verdicts" / name[:2] / f"{name}.json"


@cache
def code(module: str) -> str:
    """The judge's and the backend's own code, as it lies on the disk."""
    home = Path(str(evokernel.__file__)).parent
    own = home / "backends" / module.split(".")[2] if module.startswith("evokernel.backends.") else home / "verify"
    digest = hashlib.sha256()
    for folder in sorted({home / "verify", home / "reference", home / "core", home / "backends" / "native", own}):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in CODE or path.name == "audit.md"):
            digest.update(path.read_bytes())
    return digest.hexdigest()
