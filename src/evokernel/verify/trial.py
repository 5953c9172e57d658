"""One candidate's way through the gates: its folder, its processes, the cases it is tried on, and what it leaves behind."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core import paths
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Backend, CallShape, LatencyEstimator, LatencyMeter
from evokernel.core.records import Job, Profile, Usage
from evokernel.verify.candidate_process import CandidateProcess
from evokernel.verify.cases import SIZES, Case, Cases, seed_of
from evokernel.verify.feedback import describe, is_hidden
from evokernel.verify.shared_buffers import Arena, BufferSlot, blank, span

if TYPE_CHECKING:
    from evokernel.verify.timing import Timing

FEWEST = 3
"""Cases per size where its plan has as many; all of a size share their storage, so that whoever remembers by address is found out."""
KINDS = ("own", "near", "normal", "heavy", "shifted", "zeros", "uniform", "wide", "constant", "tiny", "shifted", "nonfinite")
FULL = ("own", "near", "wide", "shifted", "tiny")
"""At the timed size: what a kernel could do without there, and only there, such as a maximum or an epsilon."""
PLANS: dict[tuple[str, bool], dict[str, tuple[str, ...]]] = {
    ("strict", False): {"small": KINDS, "held_out": ("own", "near", "normal", "wide"), "odd": ("own", "uniform"), "bench": FULL},
    ("strict", True): {"small": KINDS, "held_out": ("own", "normal", "wide"), "odd": ("own",), "bench": ("own",)},
    ("paper", False): {"small": ("own",), "bench": ("own",) * 5},
    ("paper", True): {"small": ("own",) * 5, "bench": ("own",)},
}
"""The kinds of inputs (`draws.py`) at each size, by protocol and by whether kernels run in simulation: then every further case is slow."""
LATER = ("odd",)
TIMED_SLOTS = 2
MEMORY_BYTES, SAID_BYTES = 1 << 30, 4 << 20
SIMULATED_BYTES, PROGRAM_BYTES = 8 << 30, 64 << 20
"""Of address space for a process that traces or simulates, and for what it may write."""


@dataclass(eq=False)
class Trial:
    """One candidate's way through the gates, and what it leaves behind."""

    job: Job
    backend: Backend
    workdir: Path
    arena: Arena | None = None
    child: CandidateProcess | None = None
    timing: Timing | None = None
    profile: Profile | None = None
    slots: dict[str, list[BufferSlot]] = field(default_factory=dict)
    drawn: dict[str, list[Case]] = field(default_factory=dict)
    skipped_checks: list[str] = field(default_factory=list)
    """What could not be looked at or kept out on this machine."""
    usage: Usage = Usage()
    judged: int = 0
    """How many times a kernel was run in full and its values compared."""
    partial_run_notes: set[str] = field(default_factory=set)
    """Sizes at which only a part of the kernel was run."""

    def __enter__(self) -> Trial:
        self.seed = self.job.seed if self.job.clock == "synthetic" else secrets.randbits(48)  # nobody can have known it while writing
        self.threads = int(str(self.job.settings.get("threads") or 1))
        is_secret = self.job.clock != "synthetic"
        self.cases = Cases(self.job.task, self.seed, self.threads, protocol=self.job.protocol, is_secret=is_secret)
        return self

    def __exit__(self, *_: object) -> None:
        self.cases.close()
        if self.child:
            self.child.close()
        if self.arena:
            self.arena.close()

    def is_expensive(self, size: str) -> bool:
        """Whether a size is large and run in simulation, where a second run costs much and tells little."""
        return size == "bench" and self.is_simulated

    @property
    def is_simulated(self) -> bool:
        """Whether kernels run slowly, so that every further case costs much."""
        return isinstance(self.backend, LatencyEstimator) and not (isinstance(self.backend, LatencyMeter) and not self.backend.is_simulated)

    @property
    def plan(self) -> dict[str, tuple[str, ...]]:
        """The kinds of inputs to be tried, size by size."""
        return PLANS[self.job.protocol, self.is_simulated]

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The sizes at which this candidate is run, in order."""
        wanted: tuple[str, ...] = SIZES
        if isinstance(self.backend, LatencyEstimator):
            tried = self.backend.sizes_for(self.job.candidate)
            wanted = tried if tried == ("bench",) else (*tried, *LATER)  # one written for a single size is tried at no other
        return tuple(size for size in SIZES if size in wanted and self.plan.get(size) and self.cases.has(size))

    @property
    def first_sizes(self) -> tuple[str, ...]:
        """The sizes every candidate must be right at; where a size costs much, others are for those that would become a best."""
        return tuple(size for size in self.sizes if size not in LATER) if self.is_simulated else self.sizes

    def case(self, size: str, index: int) -> Case:
        """One of the cases of a size."""
        return self.cases_at(size)[index]

    def cases_at(self, size: str) -> list[Case]:
        """The cases of a size, without the kinds the operator is not made for, in whose place come more of the task's own."""
        if size not in self.drawn:
            kinds = self.plan.get(size, ("own",))
            found = [self.cases.planned(size, kinds[:index].count(kind), kind) for index, kind in enumerate(kinds)]
            cases = [case for case in found if case is not None]
            while len(cases) < min(len(kinds), FEWEST):
                cases.append(self.cases.draw(size, len(cases)))
            self.drawn[size] = cases
        return self.drawn[size]

    def calls(self) -> dict[str, CallShape]:
        """What a traced candidate is called with, at every size."""
        signature = self.job.task.signature
        tensors = [tuple((t.name, t.dtype, t.shape) for t in part) for part in ((*signature.inputs, *signature.params), signature.outputs)]
        scalars = tuple((number.name, number.kind, number.value) for number in signature.scalars)
        drawn = {size: call_of(self.case(size, 0)) for size in self.sizes if size != "bench"}
        return {"bench": CallShape(tensors[0], scalars, tensors[1])} | drawn

    def trace(self, source: Path | None = None) -> None:
        """Runs the candidate's own code, once, in a process that ends here; then starts the one in which its programs are run.

        `source` is where it was built; else it is laid out in a folder of its own.
        """
        if source is None:
            source = self.workdir / "candidate"
            source.mkdir()
            paths.write_files(source, self.job.candidate.files)
        with closing(Arena(0, 0, 0)) as arena:
            with closing(CandidateProcess(self.job, self.backend, self.workdir, arena, 1, SIMULATED_BYTES, PROGRAM_BYTES)) as child:
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

    def start(self, drawn: Sequence[Case], arena: Arena | None = None) -> CandidateProcess:
        """A child with room for these cases and for the timed ones, in memory of its own unless some is given."""
        signature = self.job.task.signature
        bench_in = span([blank(tensor) for tensor in (*signature.inputs, *signature.params)])
        bench_out = span([blank(tensor) for tensor in signature.outputs])
        in_bytes = TIMED_SLOTS * bench_in + sum(span(case.inputs) for case in drawn)
        out_bytes = TIMED_SLOTS * bench_out + sum(span(case.outputs) for case in drawn)
        self.arena = arena or Arena(in_bytes, out_bytes, seed_of(f"{self.seed}/poison"))
        memory_bytes = 2 * in_bytes + out_bytes + 4 * (bench_in + bench_out) + MEMORY_BYTES + (256 << 20) * (self.threads - 1)
        if isinstance(self.backend, LatencyEstimator):
            memory_bytes += SIMULATED_BYTES
        self.child = CandidateProcess(self.job, self.backend, self.workdir, self.arena, self.threads, memory_bytes, PROGRAM_BYTES)
        return self.child

    def slot(self, case: Case, which: int = 0) -> BufferSlot:
        """The storage of a size, made and bound when first asked for."""
        assert self.arena is not None
        assert self.child is not None
        slots = self.slots.setdefault(case.size, [])
        if which == len(slots):
            slots.append(self.arena.slot(case.inputs, case.outputs))
            with self.translate_errors():
                self.child.bind(slots[which], case.scalars)
        return slots[which]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """What goes wrong in the child is put into words by a backend that knows more than the system does."""
        try:
            yield
        except CandidateError as error:
            if not isinstance(self.backend, LatencyEstimator):
                raise
            raise self.backend.explain_failure(self.job.candidate, self.workdir, error) from error

    def stderr_tail(self, since: int = 0) -> str:
        """The end of what the child wrote to stderr, of what it wrote since a run."""
        assert self.child is not None
        return self.child.reported(SAID_BYTES, max(since, self.child.reported_bytes() - SAID_BYTES))

    def is_sampled(self, case: Case, since: int) -> bool:
        """Whether the last run left out a part of the kernel, which is noted: its values say nothing then."""
        line = self.backend.partial_run_note(self.workdir, self.stderr_tail(since)) if isinstance(self.backend, LatencyEstimator) else ""
        if line and case.size not in self.partial_run_notes:
            self.partial_run_notes.add(case.size)
            where = "where those wrote" if self.sizes == (case.size,) else "at smaller sizes"
            self.skipped_checks.append(f"at size {case.size} {line}, for the estimate: values were checked {where}")
        return bool(line)

    def expect(self, case: Case, slot: BufferSlot, since: int = 0) -> None:
        """Judges what the child left in a slot: bounds and inputs first, then every element, then equality with an earlier run."""
        assert self.arena
        if trespassed := self.arena.trespassed(slot):
            raise CandidateError("out_of_bounds", f"the kernel wrote {', '.join(trespassed)} ({described_size(case)})")
        if changed := self.arena.changed(slot, case.inputs):
            raise CandidateError("inputs", f"the kernel changed {', '.join(changed)} ({described_size(case)}): inputs are read only")
        results = self.arena.results(slot)
        if self.is_sampled(case, since):
            if self.sizes == (case.size,):  # there is nothing else to judge it by
                self.refuse_written(case, slot, results)
            return
        self.judged += 1
        if case.results:
            for expected, result, before in zip(case.expected, results, case.results, strict=True):
                if result.tobytes() != before.tobytes():
                    self.refuse(case, slot, results)
                    what = f"output `{expected.array.name}` differs between two runs on equal inputs"
                    raise CandidateError("nondeterministic", f"{what} ({described_size(case)}): a race, or memory that was never set")
            return
        self.refuse(case, slot, results)
        case.results = results

    def refuse_written(self, case: Case, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """The same of a run in part: what it left as it was is taken for right."""
        assert self.arena
        is_right = True
        for expected, result, poison in zip(case.expected, results, self.arena.poisons[slot.number], strict=True):
            untouched = result.reshape(-1).view(poison.dtype) == poison
            self.judged += not untouched.all()
            is_right &= expected.holds_at(result, np.flatnonzero(~untouched))
            np.copyto(result.reshape(-1), expected.array.data.reshape(-1), where=untouched)
        if not is_right:
            self.refuse(case, slot, results)

    def refuse(self, case: Case, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """Raises the first difference from the reference."""
        assert self.arena
        for expected, result, poison in zip(case.expected, results, self.arena.poisons[slot.number], strict=True):
            if difference := expected.difference(result, poison):
                raise CandidateError(difference.reason, describe(difference, case.size, shapes(case), case.kind))


def call_of(case: Case) -> CallShape:
    """A case without its data."""
    inputs = tuple((array.name, array.dtype, tuple(array.data.shape)) for array in case.inputs)
    outputs = tuple((array.name, array.dtype, tuple(array.data.shape)) for array in case.outputs)
    return CallShape(inputs, case.scalars, outputs)


def shapes(case: Case) -> str:
    """The tensors of a case, for a reader."""
    return ", ".join(f"{array.name} {list(array.data.shape)}" for array in (*case.inputs, *case.outputs))


def described_size(case: Case) -> str:
    """Which size, as far as it may be known."""
    return "at a size that is not shown" if is_hidden(case.size) else f"at size {case.size}: {shapes(case)}"
