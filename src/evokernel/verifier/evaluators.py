"""How kernels are screened, built and timed: one evaluator, chosen once from the backend's capabilities and the job's clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from evokernel.core.backend import Backend, Capabilities, TimingResult
from evokernel.core.errors import CandidateError
from evokernel.core.records import Job
from evokernel.core.tunables import read_tunables
from evokernel.verifier import incumbent
from evokernel.verifier.timing import make_synthetic_timing, measure_candidate
from evokernel.verifier.trial import Evaluator, Trial

MAX_VIOLATIONS = 5


class BaseEvaluator(ABC):
    """Screens and builds candidates, traced or not; subclasses differ in who times them."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.tracing = capabilities.tracing

    def screen(self, trial: Trial) -> None:
        """Let the backend inspect the source text, or the program that is traced from it."""
        if not trial.job.candidate.files:
            raise CandidateError("no_code", trial.job.candidate.notes or "the reply contains no source file")
        if trial.job.tuning_trials:
            read_tunables(trial.job.candidate.files)
        if self.tracing == "source":
            trial.trace_candidate()
        if violations := list(trial.backend.screen(trial.job.task, trial.job.candidate, trial.workdir)):
            raise CandidateError("forbidden", "\n".join(violations[:MAX_VIOLATIONS]))

    def build(self, trial: Trial) -> None:
        """Build the candidate; before or after that, write the traced program if there is one."""
        if self.tracing == "source":
            trial.run_preparation("lower")
        trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)
        if self.tracing == "build":
            trial.trace_candidate(trial.workdir)

    @abstractmethod
    def measure(self, trial: Trial) -> TimingResult:
        """Return paired latencies of the candidate, the incumbent and the baselines."""


class EstimatedEvaluator(BaseEvaluator):
    """The backend estimates the latency of a kernel from its build and its run."""

    def measure(self, trial: Trial) -> TimingResult:
        """Return the backend's estimate."""
        return trial.backend.estimate_latency(trial.job.task, trial.workdir, trial.stderr_tail())


class HostEvaluator(BaseEvaluator):
    """The verifier times kernels on its own clock, alternately with the incumbent, in candidate processes."""

    def build(self, trial: Trial) -> None:
        """Build the candidate, and store the build in case it becomes the incumbent."""
        super().build(trial)
        incumbent.store_build(trial)

    def measure(self, trial: Trial) -> TimingResult:
        """Time windows of equal work on the host."""
        return measure_candidate(trial)


class DeviceEvaluator(BaseEvaluator):
    """The backend times kernels on its device, alternately with the incumbent."""

    def build(self, trial: Trial) -> None:
        """Build the candidate, and store its recorded programs in case it becomes the incumbent."""
        super().build(trial)
        if trial.is_checked_on_device:
            incumbent.store_build(trial, "programs")

    def measure(self, trial: Trial) -> TimingResult:
        """Let the backend time the candidate next to the incumbent."""
        with incumbent.build_incumbent(trial) as incumbent_folder:
            return trial.backend.measure_latency(trial.job, trial.workdir, incumbent_folder)


class SyntheticEvaluator(BaseEvaluator):
    """Latencies follow from the candidate's text, for runs that must be reproducible byte by byte."""

    def measure(self, trial: Trial) -> TimingResult:
        """Return the samples that follow from task and candidate."""
        return make_synthetic_timing(trial.job)


EVALUATORS: dict[str, type[BaseEvaluator]] = {"host": HostEvaluator, "estimate": EstimatedEvaluator, "device": DeviceEvaluator}


def choose_evaluator(job: Job, capabilities: Capabilities) -> Evaluator:
    """Return the evaluator for the kernels of a job."""
    return (SyntheticEvaluator if job.clock == "synthetic" else EVALUATORS[capabilities.timing])(capabilities)


def open_trial(job: Job, backend: Backend, workdir: Path) -> Trial:
    """Return the trial of a job's candidate in a folder."""
    return Trial(job, backend, choose_evaluator(job, backend.capabilities), workdir)
