"""The check at the timed size on the backend's device: chooses the cases in secret, and explains what the device found."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.backend import DeviceCase, DeviceCaseResult, DeviceCheckResult
from evokernel.core.errors import CandidateError
from evokernel.core.output_difference import describe_output_difference
from evokernel.core.seeds import seed_from_text
from evokernel.verifier.hints import add_hints
from evokernel.verifier.trial import MIN_CASES, Trial

SKIPPED_NOTE = "other input distributions at the timed size: computing the reference takes too long"


def check_on_device(trial: Trial, kinds: Sequence[str], repeats: int, first_index: int = 0) -> None:
    """Check cases of these kinds on the device; the first one runs `repeats` times. Kinds for which the operator is not defined are
    replaced by further cases of the task's own kind."""
    cases = plan_cases(trial, kinds, repeats, first_index)
    passed = run_cases(trial, cases, is_first=first_index == 0)
    missing = min(len(kinds), MIN_CASES) - passed
    if missing > 0 and first_index == 0:
        run_cases(trial, plan_cases(trial, ("own",) * missing, 1, len(kinds)), is_first=False)


def plan_cases(trial: Trial, kinds: Sequence[str], repeats: int, first_index: int) -> list[DeviceCase]:
    """Draw the seeds of the cases. A `near` case is almost the `own` case before it; two consecutive cases have both signs."""
    cases: list[DeviceCase] = []
    for index, kind in enumerate(kinds):
        options = trial.cases.factory.find_draw_options(kind)
        if options is None:
            continue
        number = first_index + (index if kind not in ("own", "near") else list(kinds[:index]).count(kind))
        seed = seed_from_text(f"{trial.seed}/{trial.job.task.id}/device/{number}/{'own' if kind == 'near' else kind}")
        seed = seed - seed % 2 + (trial.seed + index) % 2 if kind not in ("own", "near") else seed
        is_extreme, allow_negative, allow_negative_params = options
        cases.append(DeviceCase(kind, seed % 2**40, (is_extreme, allow_negative, allow_negative_params), 1 if cases else repeats))
    return cases


def run_cases(trial: Trial, cases: Sequence[DeviceCase], is_first: bool) -> int:
    """Run cases on the device; return how many passed. Raises CandidateError for the first that fails."""
    with trial.translate_errors():
        result = trial.backend.check_on_device(trial.job, trial.workdir, cases)
    for case, one in zip(cases, result.cases):
        if one.status == "failed":
            raise explain_failure(trial, case, one, is_first=is_first and case is cases[0])
    note_skipped_checks(trial, result)
    passed = sum(one.status == "passed" for one in result.cases)
    trial.compared_runs += passed
    return passed


def note_skipped_checks(trial: Trial, result: DeviceCheckResult) -> None:
    """Note what was not checked, each once."""
    notes = [result.note, SKIPPED_NOTE if any(one.status == "skipped" for one in result.cases) else ""]
    trial.skipped_checks += [note for note in notes if note and note not in trial.skipped_checks]


def explain_failure(trial: Trial, case: DeviceCase, result: DeviceCaseResult, is_first: bool) -> CandidateError:
    """Describe a failed case for the generator."""
    signature = trial.job.task.signature
    tensors = (*signature.inputs, *signature.params, *signature.outputs)
    shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in tensors)
    detail = describe_output_difference(result.difference, "bench", shapes, case.kind) if result.difference else result.detail
    is_first_at_size = is_first and case.kind == "own" and trial.first_sizes[0] != "bench"
    is_stale = result.reason == "mismatch" and result.is_stale
    return add_hints(CandidateError(result.reason, detail), case.kind, "bench", is_stale=is_stale, is_first_at_size=is_first_at_size)
