"""The best kernel so far, built and started beside a candidate, in a process of its own.

What a build leaves is kept in memory for a while, so that a kernel that was judged here need not be built again to be held against.
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
from evokernel.verify.shared_buffers import Arena
from evokernel.verify.trial import Trial

log = logging.getLogger(__name__)
BUILDS, BUILD_BYTES = 32, 16 << 20
KEPT: OrderedDict[str, dict[str, bytes]] = OrderedDict()
"""Files by name, of the last few builds."""


def key(job: Job) -> str:
    """Everything a build depends on."""
    return json.dumps([job.backend, job.settings, job.task.id, job.task.source, job.candidate.id], sort_keys=True)


def keep(trial: Trial) -> None:
    """Remembers what was just built, before any of it has run."""
    files = [path for path in trial.workdir.iterdir() if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > BUILD_BYTES:
        return
    KEPT[key(trial.job)] = {path.name: path.read_bytes() for path in files}
    KEPT.move_to_end(key(trial.job))
    while len(KEPT) > BUILDS:
        KEPT.popitem(last=False)


def build(trial: Trial) -> None:
    """Puts a remembered build into the trial's folder, or builds anew."""
    if (found := KEPT.get(key(trial.job))) is not None:
        KEPT.move_to_end(key(trial.job))
        for name, data in found.items():
            (trial.workdir / name).write_bytes(data)
        return
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)
    keep(trial)


@contextmanager
def started(trial: Trial, candidate: Candidate | None, name: str, beside: Trial | None = None) -> Iterator[Trial | None]:
    """A kernel in another process, loaded and ready to be called; None where there is none to be had, whoever is to blame.

    It uses the tensors of the one it is to be timed `beside`: in other memory the same kernel can be a tenth faster or slower.
    """
    if candidate is None:
        yield None
        return
    job = trial.job.model_copy(update={"candidate": candidate, "incumbent": None})
    workdir = trial.workdir.with_name(f"{trial.workdir.name}-{name}")  # out of the candidate's sight, and removed by the same rule
    try:
        workdir.mkdir(mode=0o700)
        with Trial(job, trial.backend, workdir) as other:
            try:
                yield other if is_ready(other, beside.arena if beside else None) else None
            finally:
                if beside:
                    other.arena = None  # not its own to close
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


@contextmanager
def prepared(trial: Trial) -> Iterator[Path | None]:
    """The best kernel so far, built in a folder of its own as its candidate once was, for a backend that times both by itself."""
    best = trial.job.incumbent
    if best is None:
        yield None
        return
    from evokernel.verify.gates import build as through_build
    from evokernel.verify.gates import screen

    workdir = trial.workdir.with_name(f"{trial.workdir.name}-incumbent")
    try:
        workdir.mkdir(mode=0o700)
        with Trial(trial.job.model_copy(update={"candidate": best, "incumbent": None}), trial.backend, workdir) as other:
            try:
                screen(other)
                through_build(other)
                made: Path | None = workdir
            except (CandidateError, InfraError, OSError) as error:
                tell(other, error)
                made = None
            yield made
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def is_ready(trial: Trial, arena: Arena | None) -> bool:
    """Builds it, starts its process, loads it."""
    try:
        build(trial)
        child = trial.start([], arena)
        child.wait_ready()
        child.load()
    except (CandidateError, InfraError, OSError) as error:
        tell(trial, error)
        return False
    return True


def tell(trial: Trial, error: Exception) -> None:
    """Its trouble is nobody else's: a line in the log, and the candidate is timed without it."""
    log.warning("%s: the best kernel so far (%s) is not timed beside: %s", trial.job.task.id, trial.job.candidate.id, error)
