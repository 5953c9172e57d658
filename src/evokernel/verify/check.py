"""Is every element right: all sizes, several draws, poisoned outputs, guard bands."""

from __future__ import annotations

from collections.abc import Sequence

from evokernel.core.errors import CandidateError
from evokernel.verify.arena import Arena, Slot
from evokernel.verify.cases import Case
from evokernel.verify.trial import Trial, described_size

DRAWS = {"small": 3, "held_out": 2, "bench": 1}
"""Cases per size. All of a size share their storage, so that whoever remembers by address is found out."""
WRONG = ("mismatch", "unwritten", "nan", "out_of_bounds", "crash")
STALE = "this is the result of an earlier call: keep nothing between calls"
RIGHT_SO_FAR = {
    "held_out": "the small size came out right: handle sizes that are no multiple of a block, and take every size from the arguments",
    "bench": "smaller sizes came out right: look for scratch of a fixed size, narrow indices, and paths that only large sizes take",
}


def check(trial: Trial) -> None:
    """Every size, several seeds, poisoned outputs, guard bands; the first case of a size runs twice and must agree with itself."""
    child = trial.child
    if child is None:
        child = trial.start([trial.case(size, 0) for size in trial.sizes if size != "bench"])
        child.wait_ready()
    child.load()
    for size in trial.sizes:
        earlier: list[Case] = []
        for index in range(DRAWS[size]):
            case = trial.case(size, index)
            slot = trial.slot(case)
            try:
                attempt(trial, case, slot, repeats=1 if index or trial.computes(size) else 2)
            except CandidateError as error:
                is_stale = error.reason == "mismatch" and stale(trial.arena, slot, earlier)
                hint = STALE if is_stale else RIGHT_SO_FAR.get(size, "") if error.reason in WRONG else ""
                raise CandidateError(error.reason, f"{error.detail}\n{hint}".rstrip()) from error
            earlier.append(case)


def stale(arena: Arena | None, slot: Slot, earlier: Sequence[Case]) -> bool:
    """Whether a slot holds what an earlier case gave."""
    results = [result.tobytes() for result in arena.results(slot)] if arena else []
    return any(results == [result.tobytes() for result in case.results] for case in earlier)


def attempt(trial: Trial, case: Case, slot: Slot, repeats: int) -> None:
    """Runs one case, each time over fresh poison."""
    assert trial.arena is not None
    assert trial.child is not None
    trial.arena.fill(slot, case.inputs)
    for _ in range(repeats):
        trial.arena.poison(slot)
        try:
            trial.child.run(slot)
        except CandidateError as error:
            raise CandidateError(error.reason, f"{error.detail} ({described_size(case)})") from error
        trial.expect(case, slot)


def confirm(trial: Trial) -> None:
    """A closer look at a kernel that would be the best of its task."""
