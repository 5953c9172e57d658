"""The gates a candidate passes, in order: each a function of the trial; a bad candidate makes it raise CandidateError."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evokernel.core.errors import CandidateError
from evokernel.core.protocols import TracedBackend
from evokernel.core.records import Profile
from evokernel.core.statistics import is_apart
from evokernel.verify import audit, incumbents, sanitize
from evokernel.verify.check import check, confirm
from evokernel.verify.timing import Timing, measure, synthetic
from evokernel.verify.trial import Trial


def screen(trial: Trial) -> None:
    """The backend's look at the text, or at the traced program."""
    if not trial.job.candidate.files:
        raise CandidateError("no_code", trial.job.candidate.notes or "the reply held no source file")
    if isinstance(trial.backend, TracedBackend):
        trial.trace()
    if found := list(trial.backend.screen(trial.job.task, trial.job.candidate, trial.workdir)):
        raise CandidateError("forbidden", "\n".join(found[:5]))


def build(trial: Trial) -> None:
    """The backend's toolchain."""
    if isinstance(trial.backend, TracedBackend):
        trial.prepare("lower")
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)
    if not isinstance(trial.backend, TracedBackend):
        incumbents.keep(trial)


def clock(trial: Trial) -> None:
    """Paired samples of candidate, incumbent and baselines; what bounds the candidate; and a closer look at one that would be the best."""
    job, backend = trial.job, trial.backend
    found = backend.timed(job.task, trial.workdir) if isinstance(backend, TracedBackend) and job.clock != "synthetic" else None
    if found:
        trial.timing = Timing(found.samples_us, found.baseline_us, found.clock)
    else:
        trial.timing = synthetic(job) if job.clock == "synthetic" else measure(trial)
    timed = trial.timing.outcome(job)
    trial.profile = found.profile if found else backend.profile(job.task, timed)
    if job.clock != "synthetic":
        refuse_impossible(timed.latency_us or 0.0, trial.profile)
    interval = timed.interval("incumbent")
    if interval is None or (is_apart(interval) and interval[0] > 1):
        confirm(trial)


def refuse_impossible(latency_us: float, profile: Profile | None) -> None:
    """Nothing is faster than writing the outputs, whatever it computes."""
    writing_us = profile.figures.get("writing_us", 0.0) if profile else 0.0
    if latency_us < writing_us:
        raise CandidateError("impossible", f"{latency_us:.3g} µs per call is less than writing the outputs takes ({writing_us:.3g} µs)")


def always(trial: Trial) -> bool:
    """For gates that every candidate passes through."""
    return True


class Gate(NamedTuple):
    """A gate that does not apply leaves no result; one that applies and cannot do its work here leaves a line in `Trial.without`."""

    name: str
    passes: Callable[[Trial], None]
    applies: Callable[[Trial], bool] = always


GATES = (
    Gate("screen", screen),
    Gate("build", build),
    Gate("check", check),
    Gate("sanitize", sanitize.sanitize, sanitize.applies),
    Gate("audit", audit.audit, audit.applies),
    Gate("time", clock),
)
