"""Builds and starts the best kernel so far, so that it can be timed in its own process next to a candidate.

Recent builds are kept in memory, so a kernel that this process verified is not built again when it becomes the incumbent.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.records import Candidate, Job
from evokernel.verifier.shared_buffers import Arena
from evokernel.verifier.trial import Trial

log = logging.getLogger(__name__)
MAX_BUILDS, MAX_BUILD_BYTES = 32, 16 << 20
BUILD_CACHE: OrderedDict[str, dict[str, bytes]] = OrderedDict()
"""Files of the most recent builds, by build key."""


def make_build_key(job: Job) -> str:
    """Return a key of everything that a build depends on."""
    return json.dumps([job.backend, job.settings, job.task.id, job.task.source, job.candidate.id], sort_keys=True)


def store_build(trial: Trial, folder: str = "") -> None:
    """Store the files of a build before any of it has run, or those in one of its folders."""
    source = trial.workdir / folder
    files = [path for path in source.iterdir() if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > MAX_BUILD_BYTES:
        return
    BUILD_CACHE[make_build_key(trial.job)] = {f"{folder}/{path.name}".lstrip("/"): path.read_bytes() for path in files}
    BUILD_CACHE.move_to_end(make_build_key(trial.job))
    while len(BUILD_CACHE) > MAX_BUILDS:
        BUILD_CACHE.popitem(last=False)


def restore_build(job: Job, workdir: Path) -> bool:
    """Write the files of a stored build; return False if there is none."""
    files = BUILD_CACHE.get(make_build_key(job))
    if files is None:
        return False
    BUILD_CACHE.move_to_end(make_build_key(job))
    for name, data in files.items():
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).write_bytes(data)
    return True


def restore_or_build(trial: Trial) -> None:
    """Restore a stored build into the trial's folder, or build the kernel."""
    if restore_build(trial.job, trial.workdir):
        return
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)
    store_build(trial)


@contextmanager
def start_kernel(trial: Trial, candidate: Candidate | None, folder_suffix: str, partner: Trial | None = None) -> Iterator[Trial | None]:
    """Start a kernel in another process, loaded and ready; yield None if there is no candidate or it fails for any reason.

    The kernel uses the tensors of its `partner`: in other memory, the same kernel can be 10% faster or slower.
    """
    if candidate is None:
        yield None
        return
    job = trial.job.model_copy(update={"candidate": candidate, "incumbent": None})
    # The candidate cannot see this folder, and it is removed by the same rule as the trial's.
    workdir = trial.workdir.with_name(f"{trial.workdir.name}-{folder_suffix}")
    try:
        workdir.mkdir(mode=0o700)
        with Trial(job, trial.backend, trial.evaluator, workdir) as other:
            try:
                yield other if try_start(other, partner.arena if partner else None) else None
            finally:
                if partner:
                    other.arena = None  # the partner closes it
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


@contextmanager
def build_incumbent(trial: Trial) -> Iterator[Path | None]:
    """Build the incumbent in its own folder as a candidate is screened and built, for a backend that times both kernels itself."""
    best = trial.job.incumbent
    if best is None:
        yield None
        return
    workdir = trial.workdir.with_name(f"{trial.workdir.name}-incumbent")
    try:
        workdir.mkdir(mode=0o700)
        job = trial.job.model_copy(update={"candidate": best, "incumbent": None})
        if restore_build(job, workdir):
            yield workdir
            return
        with Trial(job, trial.backend, trial.evaluator, workdir) as other:
            try:
                other.evaluator.screen(other)
                other.evaluator.build(other)
                built_folder: Path | None = workdir
            except (CandidateError, InfraError, OSError) as error:
                log_failure(other, error)
                built_folder = None
            yield built_folder
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def try_start(trial: Trial, arena: Arena | None) -> bool:
    """Build, start and load the kernel; return False and log the failure if one of these fails."""
    try:
        restore_or_build(trial)
        process = trial.start_process([], arena)
        process.wait_ready()
        process.load()
    except (CandidateError, InfraError, OSError) as error:
        log_failure(trial, error)
        return False
    return True


def log_failure(trial: Trial, error: Exception) -> None:
    """Log that the incumbent failed; the candidate is then timed without it."""
    log.warning("%s: the candidate is timed without the incumbent (%s): %s", trial.job.task.id, trial.job.candidate.id, error)
