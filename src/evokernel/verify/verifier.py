"""Runs the gates over a candidate, again in fresh processes when someone else killed one, and writes down what was found."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path

import evokernel
from evokernel.core.errors import CandidateError, InfraError, ToolUnavailable
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Backend
from evokernel.core.records import GateResult, Job, Outcome
from evokernel.sandbox import layers
from evokernel.verify import scratch_dir
from evokernel.verify.gates import GATES
from evokernel.verify.outcome_cache import load_outcome, store_outcome
from evokernel.verify.reasons import clean
from evokernel.verify.trial import Trial

log = logging.getLogger(__name__)
TRIES = 3
PREFIX, LEFTOVER_S = "evokernel-judge-", 3600


def verify(job: Job) -> Outcome:
    """Tries up to three times when a process was killed from outside or did not start; the last finding stands."""
    if job.require_sandbox:
        layers.require()
    backend: Backend = make_plugin("backend", job.backend, **job.settings)
    if found := load_outcome(job, backend, versions(backend)):
        return found
    for left in reversed(range(TRIES)):
        try:
            outcome = once(job, backend)
        except InfraError as error:
            if not left:
                raise
            log.info("%s: %s; trying again", job.task.id, error)
            continue
        if left and outcome.failure and outcome.failure.reason == "killed":
            log.info("%s: %s; trying again", job.task.id, outcome.failure.detail)
            continue
        store_outcome(job, backend, outcome)
        return outcome
    raise InfraError("no tries left")


def once(job: Job, backend: Backend) -> Outcome:
    """All gates, once, in a folder of their own."""
    results: list[GateResult] = []
    with scratch() as workdir, Trial(job, backend, workdir) as trial:
        trial.skipped_checks.extend(layers.lacking())
        for name, gate in ((gate.name, gate.passes) for gate in GATES if gate.applies(trial)):
            started = time.perf_counter()
            failure: CandidateError | None = None
            try:
                gate(trial)
            except CandidateError as error:
                failure = error
            except ToolUnavailable as error:
                trial.skipped_checks.append(str(error))
                continue
            except OSError as error:
                raise InfraError(f"the {name} gate could not do its work: {error}") from error
            seconds = 0.0 if job.clock == "synthetic" else round(time.perf_counter() - started, 4)
            results.append(verdict(name, failure, seconds))
            if failure:
                break
        timed = trial.timing if results[-1].passed else None
        return (timed.outcome(job) if timed else Outcome(gates=())).model_copy(
            update={
                "gates": tuple(results),
                "profile": trial.profile if timed else None,
                "versions": versions(backend),
                "protocol": job.protocol,
                "without": tuple(trial.skipped_checks),
                "usage": trial.usage,
            }
        )


def verdict(gate: str, failure: CandidateError | None, seconds: float) -> GateResult:
    """A gate's result; what a failure says is shown to a model, so it is cut and cleaned."""
    if failure is None:
        return GateResult(gate=gate, passed=True, seconds=seconds)
    return GateResult(gate=gate, passed=False, reason=failure.reason, detail=clean(failure.detail), seconds=seconds)


def versions(backend: Backend) -> dict[str, str]:
    """The toolchain that judged."""
    found = {"evokernel": evokernel.__version__, **backend.versions()}
    with suppress(PackageNotFoundError):
        found["torch"] = installed("torch")
    return found


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, whatever a candidate's build left in it."""
    remove_leftovers()
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InfraError(f"no temporary folder can be made: {error}") from error
    with folder as path:
        yield Path(path)


def remove_own() -> None:
    """For a judge that ends in the middle of its work."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*"):
        scratch_dir.remove(path)


@lru_cache
def remove_leftovers() -> None:
    """Folders of judges that were killed: their process is gone, and an hour has passed in case it lives behind another namespace."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = path.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not is_running(int(pid)) and time.time() - path.stat().st_mtime > LEFTOVER_S:
                scratch_dir.remove(path)


def is_running(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
