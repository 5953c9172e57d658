"""Runs a correct candidate again with its memory accesses watched, on sizes that are quick, where the backend can."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from evokernel.core.errors import CandidateError, InfraError, ToolUnavailable
from evokernel.core.protocols import Arguments, ExternalSanitizer
from evokernel.verify.candidate_process import CandidateProcess
from evokernel.verify.cases import Case, seed_of
from evokernel.verify.feedback import describe
from evokernel.verify.shared_buffers import Arena, BufferSlot, span
from evokernel.verify.trial import Trial, described_size, shapes

STACK_BYTES = 64 << 20
"""Arrays that share a place on the stack get places of their own when they are watched."""
WATCHED_S = 30.0
"""What the cases may take together, where the job allows less: watched kernels are slow."""
OTHERWISE = "with every access watched, and memory that was never set filled with odd bits, the kernel gives other results"


def applies(trial: Trial) -> bool:
    """Under the strict protocol, unless running a kernel watches it anyway."""
    return trial.job.protocol == "strict" and trial.backend.sanitizer() is not None


def sanitize(trial: Trial) -> None:
    """Every case that was checked at a size other than `bench`, in a process of its own."""
    watcher = trial.backend.sanitizer()
    assert watcher, "the gate does not apply otherwise"
    if not watcher.is_available:
        raise ToolUnavailable(f"sanitizer: {watcher.detail}")
    folder = trial.workdir / "sanitized"
    try:
        folder.mkdir()
    except FileExistsError:
        raise CandidateError("forbidden", "the kernel writes into the judge's folder") from None
    if isinstance(trial.backend, ExternalSanitizer):
        cases = [drawn[0] for size, drawn in trial.drawn.items() if size != "bench" and drawn]
        calls = [Arguments(case.inputs, case.scalars, case.outputs) for case in cases]
        trial.backend.run_sanitizer(trial.job.candidate, trial.workdir, folder, calls)
        return
    run(trial, folder, trial.backend.build_sanitized(trial.job.task, trial.job.candidate, folder))


def run(trial: Trial, folder: Path, variables: dict[str, str]) -> None:
    """All of them in one process; what it reports is put into words by the backend."""
    cases = [case for size, drawn in trial.drawn.items() if size != "bench" for case in drawn]
    with closing(room(cases, trial.seed)) as arena:
        with closing(CandidateProcess(trial.job, trial.backend, folder, arena, 1, 0, variables=variables)) as child:
            try:
                child.wait_ready()
                child.left_s = max(child.left_s, WATCHED_S)
                widen_stack(child.process.pid)
            except InfraError as error:
                raise ToolUnavailable(f"sanitizer: no process can be started with it ({str(error).splitlines()[-1][-200:]})") from error
            try:
                watch(child, arena, cases)
            except CandidateError as error:
                raise trial.backend.parse_sanitizer_report(trial.job.candidate, folder, child.reported()) or error from error


def room(cases: Sequence[Case], seed: int) -> Arena:
    """Memory for one case of every size."""
    firsts = {case.size: case for case in reversed(cases)}.values()
    in_bytes = sum(span(case.inputs) for case in firsts)
    return Arena(in_bytes, sum(span([expected.array for expected in case.expected]) for case in firsts), seed_of(f"{seed}/watched"))


def widen_stack(pid: int) -> None:
    """Only the limit: the memory is taken when it is used."""
    with suppress(OSError, ValueError, AttributeError):  # not every system lets one, and the usual size will mostly do
        _, hard = resource.prlimit(pid, resource.RLIMIT_STACK)
        wanted = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
        resource.prlimit(pid, resource.RLIMIT_STACK, (wanted, hard))


def watch(child: CandidateProcess, arena: Arena, cases: Sequence[Case]) -> None:
    """Runs the cases and compares: whoever uses memory that was never set is found by what comes out."""
    child.load()
    slots: dict[str, BufferSlot] = {}
    for case in cases:
        if case.size not in slots:
            slots[case.size] = arena.slot(case.inputs, [expected.array for expected in case.expected])
            child.bind(slots[case.size], case.scalars)
        slot = slots[case.size]
        arena.fill(slot, case.inputs)
        arena.poison(slot)
        try:
            child.run(slot)
        except CandidateError as error:
            raise CandidateError(error.reason, f"{error.detail} ({described_size(case)})") from error
        befores: list[np.ndarray | None] = [*case.results] or [None] * len(case.expected)
        for expected, result, before, poison in zip(case.expected, arena.results(slot), befores, arena.poisons[slot.number], strict=True):
            if (difference := expected.difference(result, poison)) and not expected.is_near(result, before):
                raise CandidateError("undefined", f"{OTHERWISE}\n{describe(difference, case.size, shapes(case))}")
