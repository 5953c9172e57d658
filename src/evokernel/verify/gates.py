"""Screen, build, check, time: each a function of the trial; a bad candidate makes it raise CandidateError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Array, Backend, Call, TracedBackend
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
TRACED_BYTES, PROGRAM_BYTES = 8 << 30, 64 << 20
"""Of address space for a process that traces or interprets, and for what it may write."""


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
    drawn: dict[str, list[Case]] = field(default_factory=dict)

    def __enter__(self) -> Trial:
        self.threads = int(str(self.job.settings.get("threads") or 1))
        self.cases = Cases(self.job.task, self.job.seed, self.threads)
        self.sizes = self.backend.checked if isinstance(self.backend, TracedBackend) else SIZES
        return self

    def __exit__(self, *_: object) -> None:
        self.cases.close()
        if self.child:
            self.child.close()
        if self.arena:
            self.arena.close()

    def computes(self, size: str) -> bool:
        """Whether a size is large and run in simulation, where a second run costs much and tells little."""
        return size == "bench" and isinstance(self.backend, TracedBackend)

    def case(self, size: str, index: int) -> Case:
        """A case, kept once it was drawn."""
        kept = self.drawn.setdefault(size, [])
        while len(kept) <= index:
            kept.append(self.cases.draw(size, len(kept)))
        return kept[index]

    def calls(self) -> dict[str, Call]:
        """What a traced candidate is called with, at every size."""
        signature = self.job.task.signature
        tensors = [tuple((t.name, t.dtype, t.shape) for t in part) for part in ((*signature.inputs, *signature.params), signature.outputs)]
        scalars = tuple((number.name, number.kind, number.value) for number in signature.scalars)
        drawn = {size: call_of(self.case(size, 0)) for size in self.sizes if size != "bench"}
        return {"bench": Call(tensors[0], scalars, tensors[1])} | drawn

    def trace(self) -> None:
        """Runs the candidate's own code, once, in a process that ends here; then starts the one in which its programs are run."""
        source = self.workdir / "candidate"
        source.mkdir()
        for name, text in self.job.candidate.files.items():
            (source / Path(name).name).write_text(text)
        with closing(Arena(0, 0, 0)) as arena:
            with closing(Child(self.job, self.backend, self.workdir, arena, 1, TRACED_BYTES, PROGRAM_BYTES)) as child:
                child.wait_ready()
                calls = self.calls()
                try:
                    child.prepare("trace", source, calls, self.workdir / "programs")
                except InfraError as error:  # said, or brought about, where the candidate's own code runs
                    raise CandidateError("killed", f"the process that traces the kernel failed: {error}") from error
        self.start([self.case(size, 0) for size in self.sizes if size != "bench"]).wait_ready()
        self.prepare("inspect")

    def prepare(self, word: str) -> None:
        """Has the child inspect or lower the traced programs."""
        assert self.child
        self.child.prepare(word, self.workdir / "programs", self.calls(), self.workdir / word)

    def start(self, drawn: Sequence[Case]) -> Child:
        """A child with room for these cases and for the timed ones."""
        signature = self.job.task.signature
        bench_in = span([blank(tensor) for tensor in (*signature.inputs, *signature.params)])
        bench_out = span([blank(tensor) for tensor in signature.outputs])
        in_bytes = TIMED_SLOTS * bench_in + sum(span(case.inputs) for case in drawn)
        out_bytes = TIMED_SLOTS * bench_out + sum(span([expected.array for expected in case.expected]) for case in drawn)
        self.arena = Arena(in_bytes, out_bytes, seed_of(f"{self.job.seed}/poison"))
        memory_bytes = 2 * in_bytes + out_bytes + 4 * (bench_in + bench_out) + MEMORY_BYTES + (256 << 20) * (self.threads - 1)
        if isinstance(self.backend, TracedBackend):
            memory_bytes += TRACED_BYTES
        self.child = Child(self.job, self.backend, self.workdir, self.arena, self.threads, memory_bytes, PROGRAM_BYTES)
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
    """The backend's look at the text, or at the traced program."""
    if not trial.job.candidate.files:
        raise CandidateError("no_code", trial.job.candidate.notes or "the reply held no source file")
    if isinstance(trial.backend, TracedBackend):
        trial.trace()
    if found := list(trial.backend.screen(trial.job.task, trial.job.candidate, trial.workdir)):
        raise CandidateError("forbidden", "\n".join(found[:5]))


def build(trial: Trial) -> None:
    """The backend's toolchain."""
    if isinstance(trial.backend, TracedBackend):
        trial.prepare("lower")
    trial.backend.build(trial.job.task, trial.job.candidate, trial.workdir)


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


def clock(trial: Trial) -> None:
    """Paired samples of candidate and baselines, then what bounds the candidate."""
    job, backend = trial.job, trial.backend
    found = backend.timed(job.task, trial.workdir) if isinstance(backend, TracedBackend) and job.clock != "synthetic" else None
    if found:
        trial.timing = Timing(found.samples_us, found.baseline_us, found.clock)
    else:
        trial.timing = synthetic(job) if job.clock == "synthetic" else measure(trial)
    timed = Outcome(gates=(), samples_us=trial.timing.samples_us, baseline_us=trial.timing.baseline_us, clock=trial.timing.clock)
    trial.profile = found.profile if found else backend.profile(job.task, timed)
    writing_us = trial.profile.figures.get("writing_us", 0.0) if trial.profile else 0.0
    latency_us = timed.latency_us or 0.0
    if job.clock != "synthetic" and latency_us < writing_us:
        raise CandidateError("impossible", f"{latency_us:.3g} µs per call is less than writing the outputs takes ({writing_us:.3g} µs)")


def call_of(case: Case) -> Call:
    """A case without its data."""
    inputs = tuple((array.name, array.dtype, tuple(array.data.shape)) for array in case.inputs)
    outputs = tuple((e.array.name, e.array.dtype, tuple(e.array.data.shape)) for e in case.expected)
    return Call(inputs, case.scalars, outputs)


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
