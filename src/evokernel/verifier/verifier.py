"""Runs the gates on a candidate, repeats them in new processes if one was killed from outside, and returns the outcome."""

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
from evokernel.core.backend import Backend, check_tensor_types
from evokernel.core.errors import CandidateError, InfraError, ToolUnavailable
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import GateListener
from evokernel.core.records import GateResult, Job, Outcome
from evokernel.sandbox import layers
from evokernel.verifier import scratch_dir
from evokernel.verifier.candidate_process import forks_zygote, get_zygote
from evokernel.verifier.evaluators import open_trial
from evokernel.verifier.gates import GATES, TUNING_GATES
from evokernel.verifier.outcome_cache import load_outcome, store_outcome
from evokernel.verifier.reasons import sanitize_text
from evokernel.verifier.timing import make_timed_outcome

log = logging.getLogger(__name__)
MAX_ATTEMPTS = 3
FOLDER_PREFIX, STALE_AFTER_S = "evokernel-verify-", 3600


def ignore_gate(job: Job, gate: str, result: GateResult | None) -> None:
    """Report nothing."""


def verify(job: Job, on_gate: GateListener | None = None) -> Outcome:
    """Verify a candidate, up to three times if a process was killed from outside or did not start; the last result counts."""
    if job.require_sandbox:
        layers.require_all_layers()
    backend: Backend = make_plugin("backend", job.backend, **job.settings)
    check_tensor_types(backend, [job.task])
    if outcome := load_outcome(job, backend, collect_versions(backend)):
        return outcome
    start_processes(job, backend)
    for remaining in reversed(range(MAX_ATTEMPTS)):
        try:
            outcome = verify_once(job, backend, on_gate or ignore_gate)
        except InfraError as error:
            if not remaining:
                raise
            log.info("%s: %s; retrying", job.task.id, error)
            continue
        if remaining and outcome.failure and outcome.failure.reason == "killed":
            log.info("%s: %s; retrying", job.task.id, outcome.failure.detail)
            continue
        store_outcome(job, backend, outcome)
        return outcome
    raise InfraError("all attempts to verify the candidate failed")


def start_processes(job: Job, backend: Backend) -> None:
    """Start the processes that load slowly together, before the first of them is needed."""
    if forks_zygote(backend):
        get_zygote(backend, job.settings)
    if job.clock != "synthetic":
        backend.start_processes(job.protocol)


def verify_once(job: Job, backend: Backend, on_gate: GateListener) -> Outcome:
    """Run all gates once, in a new folder."""
    results: list[GateResult] = []
    with scratch_folder() as workdir, open_trial(job, backend, workdir) as trial:
        trial.skipped_checks.extend(layers.describe_missing_layers())
        gates = GATES if job.purpose == "verify" else TUNING_GATES
        for name, gate in ((gate.name, gate.run) for gate in gates if gate.applies_to(trial)):
            on_gate(job, name, None)
            start_s = time.perf_counter()
            failure: CandidateError | None = None
            try:
                gate(trial)
            except CandidateError as error:
                failure = error
            except ToolUnavailable as error:
                trial.skipped_checks.append(str(error))
                continue
            except OSError as error:
                raise InfraError(f"the {name} gate failed on this machine: {error}") from error
            seconds = 0.0 if job.clock == "synthetic" else round(time.perf_counter() - start_s, 4)
            results.append(make_gate_result(name, failure, seconds))
            on_gate(job, name, results[-1])
            if failure:
                break
        timing = trial.timing if results[-1].passed else None
        return (make_timed_outcome(job, timing) if timing else Outcome(gates=())).model_copy(
            update={
                "gates": tuple(results),
                "profile": trial.profile if timing else None,
                "versions": collect_versions(backend),
                "protocol": job.protocol,
                "skipped_checks": tuple(trial.skipped_checks),
                "run_share": trial.parts_check.run_share if trial.parts_check else None,
                "compared_share": trial.parts_check.compared_share if trial.parts_check else None,
                "random_parts": trial.parts_check.random_parts if trial.parts_check else None,
                "usage": trial.usage,
            }
        )


def make_gate_result(gate: str, failure: CandidateError | None, seconds: float) -> GateResult:
    """Return the result of a gate; the detail of a failure is shown to a model, so it is shortened and sanitized."""
    if failure is None:
        return GateResult(gate=gate, passed=True, seconds=seconds)
    return GateResult(gate=gate, passed=False, reason=failure.reason, detail=sanitize_text(failure.detail), seconds=seconds)


def collect_versions(backend: Backend) -> dict[str, str]:
    """Return the versions of the verifier's toolchain."""
    versions = {"evokernel": evokernel.__version__, **backend.versions()}
    with suppress(PackageNotFoundError):
        versions["torch"] = installed("torch")
    return versions


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder and remove it afterwards, whatever a candidate's build left in it."""
    remove_stale_folders()
    try:
        folder = tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InfraError(f"cannot create a temporary folder: {error}") from error
    with folder as path:
        yield Path(path)


def remove_own_folders() -> None:
    """Remove this process's folders when the verifier ends in the middle of its work."""
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}{os.getpid()}-*"):
        scratch_dir.remove_folder(path)


@lru_cache
def remove_stale_folders() -> None:
    """Remove folders of verifiers that were killed: their process is gone, and an hour has passed in case it runs in another namespace."""
    for path in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*-*"):
        pid = path.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not is_process_running(int(pid)) and time.time() - path.stat().st_mtime > STALE_AFTER_S:
                scratch_dir.remove_folder(path)


def is_process_running(pid: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
