"""The gates that a candidate passes, in order. Each gate is a function of the trial and raises CandidateError for a bad candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from evokernel.core.errors import CandidateError
from evokernel.core.statistics import is_significant
from evokernel.verifier import llm_review, sanitize
from evokernel.verifier.check import check_values, confirm_on_new_cases, run_timed_size
from evokernel.verifier.timing import make_timed_outcome
from evokernel.verifier.trial import Trial

IMPOSSIBLE_MARGIN = 0.95
"""A latency below this share of the time to move the data is refused as impossible."""


def screen_candidate(trial: Trial) -> None:
    """Run the screen gate: the backend inspects the source text or the traced program."""
    trial.evaluator.screen(trial)


def build_candidate(trial: Trial) -> None:
    """Run the build gate: the backend's toolchain."""
    trial.evaluator.build(trial)


def time_candidate(trial: Trial) -> None:
    """Run the time gate: paired samples of candidate, incumbent and baselines, the bottleneck, and further checks if the kernel may be the
    best."""
    job = trial.job
    trial.timing = trial.evaluator.measure(trial)
    timed_outcome = make_timed_outcome(job, trial.timing)
    trial.profile = trial.timing.profile or trial.backend.profile(job.task, timed_outcome)
    if job.clock != "synthetic":
        refuse_impossible_latency(trial, timed_outcome.latency_us or 0.0)
    interval = timed_outcome.speedup_interval("incumbent")
    if interval is None or (is_significant(interval) and interval[0] > 1):
        confirm_on_new_cases(trial)


def time_setting(trial: Trial) -> None:
    """Determine the latency of one setting of a kernel's tunables; the winner passes the ordinary gate later."""
    trial.timing = trial.evaluator.measure(trial)


def needs_run(trial: Trial) -> bool:
    """Whether the latency follows from a run of the kernel."""
    return trial.backend.capabilities.timing != "estimate" or trial.backend.capabilities.estimate_needs_run


def refuse_impossible_latency(trial: Trial, latency_us: float) -> None:
    """Refuse a latency below the time to write the outputs and to read the inputs they depend on."""
    figures = trial.profile.figures if trial.profile else {}
    writing_us, moving_us = figures.get("writing_us", 0.0), figures.get("moving_us", 0.0)
    if latency_us < writing_us:
        raise CandidateError(
            "impossible",
            f"measured {latency_us:.3g} µs per call, but writing the outputs takes at least {writing_us:.3g} µs: "
            "compute and write every output in every call",
        )
    if latency_us < IMPOSSIBLE_MARGIN * moving_us:  # the bound depends on how much of the inputs a kernel may leave unread
        min_us = moving_us * required_share(trial)
        if latency_us < IMPOSSIBLE_MARGIN * min_us:
            work = "writing the outputs and reading the inputs they depend on"
            raise CandidateError(
                "impossible",
                f"measured {latency_us:.3g} µs per call, but {work} takes at least {min_us:.3g} µs: "
                "compute every output from its inputs in every call",
            )


def required_share(trial: Trial) -> float:
    """Return which share of the task's tensors a call must read or write, measured at the largest size that the host can run whole."""
    from evokernel.reference.dependence import count_required_input_bytes

    size = "laptop" if "laptop" in trial.job.task.sizes else "bench"
    output_bytes = sum(array.data.nbytes for array in trial.cases.outputs_at(size))
    needed_bytes = count_required_input_bytes(trial.cases.reference_at(size)) + output_bytes
    if size == "bench":
        return min(1.0, needed_bytes / trial.job.task.work.bytes)
    input_bytes = sum(array.data.nbytes for array in trial.cases.draw_case(size, 0).inputs)
    return min(1.0, needed_bytes / (input_bytes + output_bytes))


def applies_always(trial: Trial) -> bool:
    """Apply a gate to every candidate."""
    return True


class Gate(NamedTuple):
    """A gate. It leaves no result if it does not apply, or if it raises ToolUnavailable because a tool is missing on this machine."""

    name: str
    run: Callable[[Trial], None]
    applies_to: Callable[[Trial], bool] = applies_always


GATES = (
    Gate("screen", screen_candidate),
    Gate("build", build_candidate),
    Gate("check", check_values),
    Gate("sanitize", sanitize.sanitize_candidate, sanitize.is_required),
    Gate("review", llm_review.review_candidate, llm_review.is_requested),
    Gate("time", time_candidate),
)
TUNING_GATES = (
    Gate("screen", screen_candidate),
    Gate("build", build_candidate),
    Gate("check", run_timed_size, needs_run),
    Gate("time", time_setting),
)
"""The gates of one setting of tunables: it runs at the timed size only, so that its result cannot tell anything about hidden sizes."""
