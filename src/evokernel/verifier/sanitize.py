"""The sanitize gate: runs a correct candidate again under the backend's sanitizer, at the sizes that run quickly."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from evokernel.core.backend import Arguments
from evokernel.core.errors import CandidateError, InfraError, ToolUnavailable
from evokernel.core.seeds import seed_from_text
from evokernel.verifier.candidate_process import CandidateProcess
from evokernel.verifier.cases import Case
from evokernel.verifier.feedback import describe_difference
from evokernel.verifier.scratch_dir import WRITE_RULE
from evokernel.verifier.shared_buffers import Arena, BufferSlot, compute_span_bytes
from evokernel.verifier.trial import Trial, describe_shapes, describe_size

STACK_BYTES = 64 << 20
"""Under a sanitizer, arrays that shared a place on the stack get separate places."""
SANITIZED_TIMEOUT_S = 30.0
"""The time for all cases together, if the job allows less: instrumented kernels are slow."""
DIFFERENT_RESULTS = (
    "built with the sanitizer, which fills uninitialized memory with odd bits, the kernel gives other results: "
    "set every variable and array element before it is read"
)


def is_required(trial: Trial) -> bool:
    """Whether the job uses the strict protocol, and ordinary runs do not check memory accesses themselves."""
    return trial.job.protocol == "strict" and trial.backend.capabilities.sanitizer != "every_run"


def sanitize_candidate(trial: Trial) -> None:
    """Run the sanitize gate: every checked case at a size other than `bench`, in a separate process."""
    sanitizer = trial.backend.sanitizer()
    if not sanitizer.is_available:
        raise ToolUnavailable(f"sanitizer: {sanitizer.detail}")
    if trial.backend.capabilities.sanitizer == "external":
        start_external_sanitizer(trial)
        assert trial.sanitizer_run is not None
        trial.sanitizer_run.result()
        return
    folder = make_sanitizer_folder(trial)
    run_instrumented(trial, folder, trial.backend.build_sanitized(trial.job.task, trial.job.candidate, folder))


def start_external_sanitizer(trial: Trial) -> None:
    """Start an external sanitizer on the first case of every size but the timed one, unless it is running; do not wait for it."""
    if trial.sanitizer_run or not is_required(trial) or trial.backend.capabilities.sanitizer != "external":
        return
    if not trial.backend.sanitizer().is_available:
        return
    folder = make_sanitizer_folder(trial)
    cases = [drawn_cases[0] for size, drawn_cases in trial.drawn_cases.items() if size != "bench" and drawn_cases]
    calls = [Arguments(case.inputs, case.scalars, case.outputs) for case in cases]
    pool = ThreadPoolExecutor(1)
    trial.sanitizer_run = pool.submit(trial.backend.run_sanitizer, trial.job.candidate, trial.workdir, folder, calls)
    pool.shutdown(wait=False)


def make_sanitizer_folder(trial: Trial) -> Path:
    """Create the folder of the sanitizer's files."""
    folder = trial.workdir / "sanitized"
    try:
        folder.mkdir()
    except FileExistsError:
        raise CandidateError("forbidden", f"the kernel wrote into the verifier's folder: {WRITE_RULE}") from None
    return folder


def run_instrumented(trial: Trial, folder: Path, variables: dict[str, str]) -> None:
    """Run all cases in one instrumented process; the backend explains the sanitizer's report."""
    cases = [case for size, drawn_cases in trial.drawn_cases.items() if size != "bench" for case in drawn_cases]
    with closing(make_arena(cases, trial.seed)) as arena:
        with closing(CandidateProcess(trial.job, trial.backend, folder, arena, 1, 0, variables=variables)) as process:
            try:
                process.wait_ready()
                process.remaining_s = max(process.remaining_s, SANITIZED_TIMEOUT_S)
                raise_stack_limit(process.process.pid)
            except InfraError as error:
                raise ToolUnavailable(
                    f"sanitizer: the instrumented process cannot be started ({str(error).splitlines()[-1][-200:]})"
                ) from error
            try:
                run_cases(process, arena, cases)
            except CandidateError as error:
                raise trial.backend.parse_sanitizer_report(trial.job.candidate, folder, process.read_stderr()) or error from error


def make_arena(cases: Sequence[Case], seed: int) -> Arena:
    """Allocate memory for one case of every size."""
    first_cases = {case.size: case for case in reversed(cases)}.values()
    in_bytes = sum(compute_span_bytes(case.inputs) for case in first_cases)
    return Arena(
        in_bytes,
        sum(compute_span_bytes([expected.array for expected in case.expected]) for case in first_cases),
        seed_from_text(f"{seed}/watched"),
    )


def raise_stack_limit(pid: int) -> None:
    """Raise the stack limit of a process; the memory is allocated only when it is used."""
    with suppress(OSError, ValueError, AttributeError):  # not every system allows it, and the default size usually suffices
        _, hard = resource.prlimit(pid, resource.RLIMIT_STACK)
        soft = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
        resource.prlimit(pid, resource.RLIMIT_STACK, (soft, hard))


def run_cases(process: CandidateProcess, arena: Arena, cases: Sequence[Case]) -> None:
    """Run the cases and compare the outputs: wrong values reveal the use of uninitialized memory."""
    process.load()
    slots: dict[str, BufferSlot] = {}
    for case in cases:
        if case.size not in slots:
            slots[case.size] = arena.add_slot(case.inputs, [expected.array for expected in case.expected])
            process.bind(slots[case.size], case.scalars)
        slot = slots[case.size]
        arena.write_inputs(slot, case.inputs)
        arena.poison_outputs(slot)
        try:
            process.run(slot)
        except CandidateError as error:
            raise CandidateError(error.reason, f"{error.detail} ({describe_size(case)})") from error
        earlier_results: list[np.ndarray | None] = [*case.accepted_results] or [None] * len(case.expected)
        for expected, result, earlier, poison in zip(
            case.expected, arena.copy_outputs(slot), earlier_results, arena.poisons[slot.slot_id], strict=True
        ):
            if (difference := expected.find_difference(result, poison)) and not expected.is_close_to_earlier(result, earlier):
                raise CandidateError(
                    "undefined", f"{DIFFERENT_RESULTS}\n{describe_difference(difference, case.size, describe_shapes(case))}"
                )
