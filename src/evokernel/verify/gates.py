"""Screen, build, check, time: each a function of the trial; a bad candidate makes it raise CandidateError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evokernel.core.errors import CandidateError
from evokernel.core.protocols import Array, Backend
from evokernel.core.records import Job, Outcome, Profile, Tensor
from evokernel.verify.arena import STORED, Arena, Slot, span
from evokernel.verify.cases import SIZES, Case, Cases, seed_of
from evokernel.verify.feedback import describe
from evokernel.verify.sandbox import Child
from evokernel.verify.timing import Timing, measure, synthetic

DRAWS = {"small": 3, "held_out": 2, "bench": 1}
"""Cases per size. All of a size share their storage, so that whoever remembers by address is found out."""
TIMED_SLOTS = 2
WRONG = ("mismatch", "unwritten", "nan", "out_of_bounds", "crash")
STALE = "this is the result of an earlier call: keep nothing between calls"
RIGHT_SO_FAR = {
    "held_out": "the small size came out right: handle sizes that are no multiple of a block, and take every size from the arguments",
    "bench": "smaller sizes came out right: look for scratch of a fixed size, narrow indices, and paths that only large sizes take",
}
MEMORY_BYTES = 1 << 30


@dataclass(eq=False)
class Trial:
    """One candidate's way through the gates, and what it leaves behind."""

    job: Job
    backend: Backend
    workdir: Path
    arena: Arena | None = None
    child: Child | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    slots: dict[str, list[Slot]] = field(default_factory=dict)

    def __enter__(self) -> Trial:
        self.threads = int(str(self.job.settings.get("threads") or 1))
        self.cases = Cases(self.job.task, self.job.seed, self.threads)
        return self

    def __exit__(self, *_: object) -> None:
        self.cases.close()
        if self.child:
            self.child.close()
        if self.arena:
            self.arena.close()

    def start(self, drawn: Sequence[Case]) -> Child:
        """A child with room for these cases and for the timed ones."""
        signature = self.job.task.signature
        bench_in = span([blank(tensor) for tensor in (*signature.inputs, *signature.params)])
        bench_out = span([blank(tensor) for tensor in signature.outputs])
        in_bytes = TIMED_SLOTS * bench_in + sum(span(case.inputs) for case in drawn)
        out_bytes = TIMED_SLOTS * bench_out + sum(span([expected.array for expected in case.expected]) for case in drawn)
        self.arena = Arena(in_bytes, out_bytes, seed_of(f"{self.job.seed}/poison"))
        memory_bytes = 2 * in_bytes + out_bytes + 4 * (bench_in + bench_out) + MEMORY_BYTES + (256 << 20) * (self.threads - 1)
        self.child = Child(self.job, type(self.backend), self.workdir, self.arena, self.threads, memory_bytes)
        return self.child

    def slot(self, case: Case, which: int = 0) -> Slot:
        """The storage of a size, made and bound when first asked for."""
        assert self.arena is not None
        assert self.child is not None
        slots = self.slots.setdefault(case.size, [])
        if which == len(slots):
            slots.append(self.arena.slot(case.inputs, [expected.array for expected in case.expected]))
            self.child.bind(slots[which], case.scalars)
        return slots[which]

    def expect(self, case: Case, slot: Slot) -> None:
        """Judges what the child left in a slot: bounds first, then every element, then equality with an earlier run."""
        assert self.arena
        if trespassed := self.arena.trespassed(slot):
            raise CandidateError("out_of_bounds", f"the kernel wrote {', '.join(trespassed)} ({described_size(case)})")
        results = self.arena.results(slot)
        if case.results:
            for expected, result, before in zip(case.expected, results, case.results, strict=True):
                if result.tobytes() != before.tobytes():
                    self.refuse(case, slot, results)
                    what = f"output `{expected.array.name}` differs between two runs on equal inputs"
                    raise CandidateError("nondeterministic", f"{what} ({described_size(case)}): a race, or memory that was never set")
            return
        self.refuse(case, slot, results)
        case.results = results

    def refuse(self, case: Case, slot: Slot, results: Sequence[np.ndarray]) -> None:
        """Raises the first difference from the reference."""
        assert self.arena
        for expected, result, poison in zip(case.expected, results, self.arena.poisons[slot.number], strict=True):
            if difference := expected.difference(result, poison):
                raise CandidateError(difference.reason, describe(difference, case.size, shapes(case)))


def screen(trial: Trial) -> None:
    """The backend's look at the text."""
    if not trial.job.candidate.files:
        raise CandidateError("no_code", trial.job.candidate.notes or "the reply held no source file")
    if found := list(trial.backend.screen(trial.job.task, trial.job.candidate)):
        raise CandidateError("forbidden", "\n".join(found[:5]))


def build(trial: Trial) -> None:
    """The backend's toolchain."""
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)


def check(trial: Trial) -> None:
    """Every size, several seeds, poisoned outputs, guard bands; the first case of a size runs twice and must agree with itself."""
    drawn = {size: [trial.cases.draw(size, index) for index in range(DRAWS[size])] for size in SIZES if size != "bench"}
    child = trial.start([cases[0] for cases in drawn.values()])
    child.wait_ready()
    child.load()
    for size in SIZES:
        earlier: list[Case] = []
        for index in range(DRAWS[size]):
            case = drawn[size][index] if size in drawn else trial.cases.draw(size, index)
            slot = trial.slot(case)
            try:
                attempt(trial, case, slot, repeats=1 if index else 2)
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


def clock(trial: Trial) -> None:
    """Paired samples of candidate and baselines, then what bounds the candidate."""
    job = trial.job
    trial.timing = synthetic(job) if job.clock == "synthetic" else measure(trial)
    timed = Outcome(gates=(), samples_us=trial.timing.samples_us, baseline_us=trial.timing.baseline_us, clock=trial.timing.clock)
    trial.profile = trial.backend.profile(job.task, timed)
    floor_us = trial.profile.figures.get("floor_us", 0.0) if trial.profile else 0.0
    latency_us = timed.latency_us or 0.0
    if job.clock != "synthetic" and latency_us < floor_us:
        raise CandidateError("impossible", f"{latency_us:.3g} µs per call is less than writing the outputs takes ({floor_us:.3g} µs)")


def blank(tensor: Tensor) -> Array:
    """A tensor of a signature without its memory."""
    return Array(tensor.name, tensor.dtype, np.broadcast_to(np.zeros((), STORED.get(tensor.dtype, tensor.dtype)), tensor.shape))


def shapes(case: Case) -> str:
    """The tensors of a case, for a reader."""
    return ", ".join(f"{array.name} {list(array.data.shape)}" for array in (*case.inputs, *(expected.array for expected in case.expected)))


def described_size(case: Case) -> str:
    """Which size, as far as it may be known."""
    return "at a size that is not shown" if case.size == "held_out" else f"at size {case.size}: {shapes(case)}"


GATES: tuple[tuple[str, Callable[[Trial], None]], ...] = (("screen", screen), ("build", build), ("check", check), ("time", clock))
