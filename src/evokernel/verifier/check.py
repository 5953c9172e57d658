"""The check gate: compares every output element at several sizes and input distributions, with poisoned outputs, guard bands and read-only
inputs.

The order is candidate, reference, candidate: the expected outputs are computed after the first run, and the second run must reproduce the
first bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from evokernel.core.errors import CandidateError, UserError
from evokernel.verifier.cases import Case
from evokernel.verifier.device_check import check_on_device
from evokernel.verifier.hints import add_hints
from evokernel.verifier.parts import check_in_parts, confirm_in_parts
from evokernel.verifier.sanitize import start_external_sanitizer
from evokernel.verifier.shared_buffers import NAN_GAP_BYTE, NUMBER_GAP_BYTE, Arena, BufferSlot
from evokernel.verifier.tolerance import UnsuitableInputs
from evokernel.verifier.trial import Trial, describe_size

BENCH_CONFIRMATION = (("bench", "own"), ("bench", "normal"), ("bench", "heavy"), ("bench", "zeros"), ("bench", "constant"))
SIMULATED_BENCH_CONFIRMATION = (("bench", "wide"), ("bench", "shifted"), ("bench", "tiny"))
CONFIRMATION_CASES = {
    False: (("small", "own"), ("small", "uniform"), ("held_out", "heavy"), ("held_out", "shifted"), *BENCH_CONFIRMATION),
    True: (
        ("small", "own"),
        ("small", "uniform"),
        ("held_out", "heavy"),
        ("odd", "own"),
        ("odd", "uniform"),
        ("laptop", "own"),
        ("laptop", "shifted"),
        *SIMULATED_BENCH_CONFIRMATION,
    ),
}
"""Further cases for a kernel that would become the best, by whether kernels run in simulation; some cases run only here."""
BENCH_SKIPPED_NOTE = "other input distributions at the timed size: simulating the kernel takes too long"
OUTSIDE_READ = "the kernel reads outside its input tensors, and the bytes there change its results: check the bounds of every load"


def load_candidate(trial: Trial) -> None:
    """Load the candidate in its process, which is started if there is none."""
    process = trial.candidate_process
    if process is None:
        process = trial.start_process([trial.get_case(size, 0) for size in trial.sizes if size != "bench"])
        process.wait_ready()
    with trial.translate_errors():
        process.load()


def run_timed_size(trial: Trial) -> None:
    """Run a setting of tunables once at the timed size, and compare what it computes."""
    load_candidate(trial)
    if trial.is_checked_on_device:
        check_on_device(trial, trial.case_plan["bench"], repeats=1)
        return
    for case in (case for size in trial.sizes for case in trial.list_cases(size)):
        check_case(trial, case, (), repeats=1)
    if trial.is_run_in_parts:
        check_in_parts(trial)


def check_values(trial: Trial) -> None:
    """Run the check gate: every size and several kinds of inputs. The first case of a size runs twice and must give equal results."""
    load_candidate(trial)
    for size in trial.first_sizes:
        if size == "bench" and trial.is_checked_on_device:
            start_external_sanitizer(trial)  # it runs at the other sizes, which are correct by now
            check_on_device(trial, trial.case_plan[size], repeats=2 if trial.job.protocol == "strict" else 1)
            continue
        earlier: list[Case] = []
        for case in list(trial.list_cases(size)):
            is_first = not earlier and trial.job.protocol == "strict"
            try:
                check_case(trial, case, earlier, repeats=2 if is_first and not trial.is_expensive(size) else 1)
            except UnsuitableInputs:
                trial.drawn_cases[size].remove(case)
                continue
            earlier.append(case)
    if trial.is_run_in_parts:
        check_in_parts(trial)
    if trial.partial_run_sizes and not trial.compared_runs:
        raise UserError(f"{trial.job.task.id} is too large to run completely in simulation: verify the kernel on a task with smaller sizes")
    if (note := trial.cases.factory.tolerance.skipped_check) and note not in trial.skipped_checks:
        trial.skipped_checks.append(note)


def confirm_on_new_cases(trial: Trial) -> None:
    """Check a correct kernel that would become the best on further, newly drawn cases."""
    if trial.job.protocol != "strict":
        return
    is_simulated = trial.is_simulated
    if trial.is_run_in_parts:
        confirm_in_parts(trial)
    if trial.is_checked_on_device and "bench" in trial.sizes:
        check_on_device(trial, tuple(kind for _, kind in BENCH_CONFIRMATION), repeats=1, first_index=1000)
    for index, (size, kind) in enumerate(CONFIRMATION_CASES[is_simulated]):
        if size in trial.partial_run_sizes or (size == "bench" and trial.is_checked_on_device):
            continue
        if (
            trial.is_expensive(size)
            and trial.candidate_process
            and trial.candidate_process.remaining_s < trial.candidate_process.timeout_s / 2
        ):
            trial.skipped_checks.append(BENCH_SKIPPED_NOTE)
            return
        if size in trial.sizes:
            with suppress(UnsuitableInputs):
                check_case(trial, trial.cases.draw_case(size, 1000 + index, kind), (), repeats=1)


def check_case(trial: Trial, case: Case, earlier: Sequence[Case], repeats: int) -> None:
    """Check one case; add hints about likely causes to a failure."""
    slot = trial.get_slot(case)
    try:
        run_case(trial, case, slot, repeats)
    except CandidateError as error:
        is_stale = error.reason == "mismatch" and is_stale_result(trial.arena, slot, earlier)
        is_first_at_size = case.kind == "own" and not earlier and case.size != trial.first_sizes[0]
        raise add_hints(error, case.kind, case.size, is_stale=is_stale, is_first_at_size=is_first_at_size) from error


def is_stale_result(arena: Arena | None, slot: BufferSlot, earlier: Sequence[Case]) -> bool:
    """Whether a slot holds the results of an earlier case."""
    results = [result.tobytes() for result in arena.copy_outputs(slot)] if arena else []
    return any(results == [result.tobytes() for result in case.accepted_results] for case in earlier)


def run_case(trial: Trial, case: Case, slot: BufferSlot, repeats: int) -> None:
    """Run one case, each time with newly poisoned outputs and other bytes around the inputs."""
    assert trial.arena is not None
    trial.arena.write_inputs(slot, case.inputs)
    for gap_byte in (NAN_GAP_BYTE, NUMBER_GAP_BYTE)[:repeats]:
        stderr_offset = run_once(trial, case, slot, gap_byte)
        try:
            trial.verify_outputs(case, slot, stderr_offset)
        except CandidateError as error:
            if error.reason in ("mismatch", "nan", "nondeterministic") and is_reading_outside(trial, case, slot, gap_byte):
                raise CandidateError("out_of_bounds", f"{OUTSIDE_READ} ({describe_size(case)})") from error
            raise


def run_once(trial: Trial, case: Case, slot: BufferSlot, gap_byte: int) -> int:
    """Run the kernel once with a byte around the inputs, and add the size to a failure. Return the stderr offset of this run."""
    assert trial.arena is not None
    assert trial.candidate_process is not None
    trial.arena.fill_input_gaps(slot, gap_byte)
    trial.arena.poison_outputs(slot)
    stderr_offset = trial.candidate_process.stderr_size()
    try:
        with trial.translate_errors():
            trial.candidate_process.run(slot)
    except CandidateError as error:
        first, line_end, rest = error.detail.partition("\n")
        raise CandidateError(error.reason, f"{first} ({describe_size(case)}){line_end}{rest}") from error
    return stderr_offset


def is_reading_outside(trial: Trial, case: Case, slot: BufferSlot, gap_byte: int) -> bool:
    """Whether different bytes around the inputs change the results, and equal bytes reproduce them."""
    assert trial.arena is not None
    if trial.is_traced or trial.is_expensive(case.size):
        return False
    original = trial.arena.copy_outputs(slot)
    results_by_run = []
    with suppress(CandidateError):
        for other in (gap_byte, NAN_GAP_BYTE ^ NUMBER_GAP_BYTE ^ gap_byte, gap_byte):
            run_once(trial, case, slot, other)
            results_by_run.append([result.tobytes() for result in trial.arena.copy_outputs(slot)])
    trial.arena.restore_outputs(slot, original)
    original_bytes = [result.tobytes() for result in original]
    return (
        len(results_by_run) == 3
        and results_by_run[0] == original_bytes
        and results_by_run[1] != original_bytes
        and results_by_run[2] == original_bytes
    )
