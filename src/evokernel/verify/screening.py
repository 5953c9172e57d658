"""The screen gate: the backend inspects the source text or the traced program of a candidate."""

from __future__ import annotations

from evokernel.core.errors import CandidateError
from evokernel.verify.trial import Trial

MAX_VIOLATIONS = 5


def screen_candidate(trial: Trial) -> None:
    """Run the screen gate. Raises CandidateError with the first rule violations."""
    if not trial.job.candidate.files:
        raise CandidateError("no_code", trial.job.candidate.notes or "the reply contains no source file")
    trial.evaluator.prepare_source(trial)
    if violations := list(trial.backend.screen(trial.job.task, trial.job.candidate, trial.workdir)):
        raise CandidateError("forbidden", "\n".join(violations[:MAX_VIOLATIONS]))
