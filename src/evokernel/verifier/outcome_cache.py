"""Caches outcomes of deterministic backends, so that no candidate is verified twice.

A cache that cannot be read or written is not an error.
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
from evokernel.core.backend import Backend
from evokernel.core.records import TRANSIENT_REASONS, Job, Outcome, Usage

log = logging.getLogger(__name__)
DATA_FOLDERS = {"__pycache__", "knowledge", "prompts", "samples", "selftest", "export"}
"""Folders of a backend that no outcome depends on."""

IRRELEVANT_FIELDS = {"candidate", "timeout_s", "timing_s", "tuning_s", "incumbent", "ignore_cache", "reports_gates"}
"""Fields of a job that do not decide its outcome; the candidate's files are hashed separately."""


def load_outcome(job: Job, backend: Backend, versions: dict[str, str]) -> Outcome | None:
    """Return the cached outcome of the same candidate under the same code and toolchain, or None."""
    if job.ignore_cache or not is_repeatable(job, backend):
        return None
    return read_outcome(cache_path(job, backend, versions))


def store_outcome(job: Job, backend: Backend, outcome: Outcome) -> None:
    """Cache an outcome that another verification would reproduce, if the disk allows."""
    if is_repeatable(job, backend):
        write_outcome(cache_path(job, backend, outcome.versions), outcome)


def read_outcome(path: Path) -> Outcome | None:
    """Return a stored outcome; None if there is none that can be read."""
    try:
        return Outcome.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write_outcome(path: Path, outcome: Outcome) -> None:
    """Store an outcome, unless chance may have caused it or the disk does not allow it."""
    if outcome.failure and outcome.failure.reason in TRANSIENT_REASONS:
        return
    if outcome.feasible and not outcome.baseline_us:
        return  # the baseline may only have been too slow this time
    try:
        unpaid = outcome.model_copy(update={"usage": Usage()})  # a model call is paid once
        paths.write_bytes(path, unpaid.model_dump_json().encode())
    except OSError as error:
        log.debug("outcome not stored: %s", error)


def is_repeatable(job: Job, backend: Backend) -> bool:
    """Whether another verification would give the same outcome."""
    return job.clock == "auto" and backend.capabilities.is_repeatable


def cache_path(job: Job, backend: Backend, versions: dict[str, str]) -> Path:
    """Return the path of a cached outcome."""
    return sharded_path(paths.cache_folder() / "outcomes", outcome_key(job, backend, versions))


def sharded_path(folder: Path, key: str) -> Path:
    """Return the path of an outcome in a folder that may hold very many."""
    return folder / key[:2] / f"{key}.json"


def outcome_key(job: Job, backend: Backend, versions: dict[str, str]) -> str:
    """Return a hash of everything that decides an outcome."""
    job_fields = job.model_dump(mode="json", exclude=IRRELEVANT_FIELDS)
    job_fields["tuning_trials"] = bool(job.tuning_trials)  # whether comments about tunables must be well-formed
    text = json.dumps([hash_code(type(backend).__module__), versions, job_fields, sorted(job.candidate.files.items())], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def hash_code(module: str) -> str:
    """Hash the source code of the verifier and the backend, in whatever languages it is written."""
    home = Path(str(evokernel.__file__)).parent
    backend_folder = home / "backends" / module.split(".")[2] if module.startswith("evokernel.backends.") else home / "verifier"
    digest = hashlib.sha256()
    for folder in sorted(
        {home / "verifier", home / "reference", home / "core", home / "backends" / "native", home / "backends" / "gpu", backend_folder}
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and not DATA_FOLDERS & set(path.relative_to(home).parts)):
            digest.update(path.read_bytes())
    return digest.hexdigest()
