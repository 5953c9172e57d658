"""Is every element right: several sizes and kinds of inputs, poisoned outputs, guard bands, inputs left alone.

The order is candidate, reference, candidate: what must come out is worked out after the first run, and the second must give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from evokernel.core.errors import CandidateError, UserError
from evokernel.core.protocols import TracedBackend
from evokernel.verify.cases import Case, Unsuited
from evokernel.verify.shared_buffers import NAN_BYTE, OTHER_BYTE, Arena, BufferSlot
from evokernel.verify.trial import Trial, described_size

WRONG = ("mismatch", "unwritten", "nan", "out_of_bounds", "crash")
STALE = "this is the result of an earlier call: keep nothing between calls"
RIGHT_SO_FAR = {
    "held_out": "the small size came out right: handle sizes that are no multiple of a block, and take every size from the arguments",
    "odd": "the small size came out right: handle any size, down to 1, and take every size from the arguments",
    "bench": "smaller sizes came out right: look for long sums in a float, scratch of a fixed size, narrow indices, paths large sizes take",
}
OTHER_KINDS = {
    "near": "only one element of the inputs had changed since the call before",
    "normal": "inputs were drawn from a normal distribution, and parameters had other values than they start with",
    "uniform": "inputs were drawn evenly from both sides of zero, and parameters had other values than they start with",
    "wide": "inputs were wider than the task's own",
    "tiny": "inputs were smaller than the task's own",
    "heavy": "a few inputs were much larger than the others",
    "shifted": "inputs were far from zero and close to each other",
    "constant": "all elements of an input were equal",
    "zeros": "all inputs were zero",
    "nonfinite": "a few inputs were infinite or NaN",
}
BENCH = (("bench", "own"), ("bench", "normal"), ("bench", "heavy"), ("bench", "zeros"), ("bench", "constant"))
BENCH_SIMULATED = (("bench", "wide"), ("bench", "shifted"), ("bench", "tiny"))
CONFIRMED = {
    False: (("small", "own"), ("small", "uniform"), ("held_out", "heavy"), ("held_out", "shifted"), *BENCH),
    True: (("small", "own"), ("small", "uniform"), ("held_out", "heavy"), ("odd", "own"), ("odd", "uniform"), *BENCH_SIMULATED),
}
"""Further cases for a kernel that would become a best; where kernels run in simulation, some are run only here."""
TOO_SLOW = "other kinds of inputs at the timed size: interpreting the kernel takes too long"
READS = "the kernel reads outside its inputs, and what it finds there changes its results"


def check(trial: Trial) -> None:
    """Every size, several kinds of inputs; the first case of a size runs twice and must agree with itself."""
    child = trial.child
    if child is None:
        child = trial.start([trial.case(size, 0) for size in trial.sizes if size != "bench"])
        child.wait_ready()
    with trial.translate_errors():
        child.load()
    for size in trial.first_sizes:
        earlier: list[Case] = []
        for case in list(trial.cases_at(size)):
            is_first = not earlier and trial.job.protocol == "strict"
            try:
                check_case(trial, case, earlier, repeats=2 if is_first and not trial.is_expensive(size) else 1)
            except Unsuited:
                trial.drawn[size].remove(case)
                continue
            earlier.append(case)
    if trial.partial_run_notes and not trial.judged:
        raise UserError(f"{trial.job.task.id} is too large to be run in full here: verify it on a task with smaller sizes")
    if (note := trial.cases.maker.yardstick.without) and note not in trial.skipped_checks:
        trial.skipped_checks.append(note)


def confirm(trial: Trial) -> None:
    """Further cases that nobody has seen, for a kernel that was right and fast enough to become a best."""
    if trial.job.protocol != "strict":
        return
    is_priced = trial.is_simulated
    for index, (size, kind) in enumerate(CONFIRMED[is_priced]):
        if size in trial.partial_run_notes:
            continue
        if is_priced and size == "bench" and trial.child and trial.child.left_s < trial.child.timeout_s / 2:
            trial.skipped_checks.append(TOO_SLOW)
            return
        if size in trial.sizes:
            with suppress(Unsuited):
                check_case(trial, trial.cases.draw(size, 1000 + index, kind), (), repeats=1)


def check_case(trial: Trial, case: Case, earlier: Sequence[Case], repeats: int) -> None:
    """One case; what is wrong with it comes with what may be behind it."""
    slot = trial.slot(case)
    try:
        run_case(trial, case, slot, repeats)
    except CandidateError as error:
        if error.reason not in WRONG:
            raise
        is_stale = error.reason == "mismatch" and stale(trial.arena, slot, earlier)
        is_new = case.kind == "own" and not earlier and case.size != trial.first_sizes[0]
        hints = [STALE] if is_stale else [OTHER_KINDS.get(case.kind, ""), RIGHT_SO_FAR.get(case.size, "") if is_new else ""]
        raise CandidateError(error.reason, "\n".join([error.detail, *filter(None, hints)])) from error


def stale(arena: Arena | None, slot: BufferSlot, earlier: Sequence[Case]) -> bool:
    """Whether a slot holds what an earlier case gave."""
    results = [result.tobytes() for result in arena.results(slot)] if arena else []
    return any(results == [result.tobytes() for result in case.results] for case in earlier)


def run_case(trial: Trial, case: Case, slot: BufferSlot, repeats: int) -> None:
    """Runs one case, each time over fresh poison and with other bytes around the inputs."""
    assert trial.arena is not None
    trial.arena.fill(slot, case.inputs)
    for byte in (NAN_BYTE, OTHER_BYTE)[:repeats]:
        since = run(trial, case, slot, byte)
        try:
            trial.expect(case, slot, since)
        except CandidateError as error:
            if error.reason in ("mismatch", "nan", "nondeterministic") and reads_outside(trial, case, slot, byte):
                raise CandidateError("out_of_bounds", f"{READS} ({described_size(case)})") from error
            raise


def run(trial: Trial, case: Case, slot: BufferSlot, byte: int) -> int:
    """One run with a byte around the inputs; what goes wrong in it is told with the size. Gives where what it writes to stderr begins."""
    assert trial.arena is not None
    assert trial.child is not None
    trial.arena.surround(slot, byte)
    trial.arena.poison(slot)
    since = trial.child.reported_bytes()
    try:
        with trial.translate_errors():
            trial.child.run(slot)
    except CandidateError as error:
        first, line_end, rest = error.detail.partition("\n")
        raise CandidateError(error.reason, f"{first} ({described_size(case)}){line_end}{rest}") from error
    return since


def reads_outside(trial: Trial, case: Case, slot: BufferSlot, byte: int) -> bool:
    """Whether other bytes around the inputs give other results, and the same bytes the same ones."""
    assert trial.arena is not None
    if isinstance(trial.backend, TracedBackend) or trial.is_expensive(case.size):
        return False
    found = trial.arena.results(slot)
    seen = []
    with suppress(CandidateError):
        for other in (byte, NAN_BYTE ^ OTHER_BYTE ^ byte, byte):
            run(trial, case, slot, other)
            seen.append([result.tobytes() for result in trial.arena.results(slot)])
    trial.arena.restore(slot, found)
    was = [result.tobytes() for result in found]
    return len(seen) == 3 and seen[0] == was and seen[1] != was and seen[2] == was
