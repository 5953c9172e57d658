"""The gates a candidate passes, in order: each a function of the trial; a bad candidate makes it raise CandidateError."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evokernel.core.errors import CandidateError
from evokernel.core.protocols import Backend, LatencyEstimator, LatencyMeter, TracedBackend
from evokernel.core.statistics import is_significant
from evokernel.verify import incumbent, llm_review, sanitize
from evokernel.verify.check import check, confirm
from evokernel.verify.timing import Timing, measure, synthetic
from evokernel.verify.trial import Trial

SURE = 0.95
"""Times must lie this far below what moving the data takes to be refused for it."""


def screen(trial: Trial) -> None:
    """The backend's look at the text, or at the traced program."""
    if not trial.job.candidate.files:
        raise CandidateError("no_code", trial.job.candidate.notes or "the reply held no source file")
    if isinstance(trial.backend, TracedBackend) and not traces_build(trial.backend):
        trial.trace()
    if found := list(trial.backend.screen(trial.job.task, trial.job.candidate, trial.workdir)):
        raise CandidateError("forbidden", "\n".join(found[:5]))


def build(trial: Trial) -> None:
    """The backend's toolchain."""
    is_traced = isinstance(trial.backend, TracedBackend)
    if is_traced and not traces_build(trial.backend):
        trial.prepare("lower")
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)
    if is_traced and traces_build(trial.backend):
        trial.trace(trial.workdir)
    if not isinstance(trial.backend, LatencyEstimator):  # those are timed beside nobody
        incumbent.keep(trial)


def clock(trial: Trial) -> None:
    """Paired samples of candidate, incumbent and baselines; what bounds the candidate; and a closer look at one that would be the best."""
    job, backend = trial.job, trial.backend
    found = None
    if isinstance(backend, LatencyEstimator) and job.clock != "synthetic":
        if isinstance(backend, LatencyMeter) and not backend.is_simulated:
            with incumbent.prepared(trial) as beside:
                found = backend.measure_latency(job, trial.workdir, beside)
        else:
            found = backend.estimate_latency(job.task, trial.workdir, trial.stderr_tail())
    if found:
        trial.timing = Timing(found.samples_us, found.baseline_us, found.clock, found.incumbent_us)
    else:
        trial.timing = synthetic(job) if job.clock == "synthetic" else measure(trial)
    timed = trial.timing.outcome(job)
    trial.profile = found.profile if found else backend.profile(job.task, timed)
    if job.clock != "synthetic":
        refuse_impossible(trial, timed.latency_us or 0.0)
    interval = timed.speedup_interval("incumbent")
    if interval is None or (is_significant(interval) and interval[0] > 1):
        confirm(trial)


def refuse_impossible(trial: Trial, latency_us: float) -> None:
    """Nothing is faster than writing the outputs and reading what they depend on, whatever it computes."""
    figures = trial.profile.figures if trial.profile else {}
    writing_us, moving_us = figures.get("writing_us", 0.0), figures.get("moving_us", 0.0)
    if latency_us < writing_us:
        raise CandidateError("impossible", f"{latency_us:.3g} µs per call is less than writing the outputs takes ({writing_us:.3g} µs)")
    if latency_us < SURE * moving_us:  # then it matters how much of its inputs a kernel could have left unread
        from evokernel.reference.dependence import needed_bytes

        needed = needed_bytes(trial.cases.reference("bench")) + sum(array.data.nbytes for array in trial.cases.outputs("bench"))
        if latency_us < SURE * (least_us := moving_us * min(1.0, needed / trial.job.task.work.bytes)):
            what = "writing the outputs and reading the inputs they depend on takes"
            raise CandidateError("impossible", f"{latency_us:.3g} µs per call is less than {what} ({least_us:.3g} µs)")


def traces_build(backend: Backend) -> bool:
    """Whether what is traced is the built candidate."""
    return bool(getattr(backend, "traces_build", False))


def always(trial: Trial) -> bool:
    """For gates that every candidate passes through."""
    return True


class Gate(NamedTuple):
    """A gate that does not apply leaves no result; nor does one that raises CannotRun, since it cannot do its work here."""

    name: str
    passes: Callable[[Trial], None]
    applies: Callable[[Trial], bool] = always


GATES = (
    Gate("screen", screen),
    Gate("build", build),
    Gate("check", check),
    Gate("sanitize", sanitize.sanitize, sanitize.applies),
    Gate("audit", llm_review.audit, llm_review.applies),
    Gate("time", clock),
)
