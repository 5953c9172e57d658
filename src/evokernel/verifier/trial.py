"""One candidate's trial: its folder, its processes, its test cases and the results that the gates collect."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from evokernel.core import paths
from evokernel.core.backend import SIZES, Array, Backend, CallShape, TimingResult
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.output_difference import is_hidden
from evokernel.core.records import Job, Profile, Usage
from evokernel.core.seeds import seed_from_text
from evokernel.verifier.candidate_process import CandidateProcess
from evokernel.verifier.cases import Case, Cases
from evokernel.verifier.feedback import describe_difference
from evokernel.verifier.shared_buffers import Arena, BufferSlot, compute_span_bytes, make_blank_array

MIN_CASES = 3
"""Cases per size, if its plan has as many. All cases of a size share their memory, which exposes kernels that remember results by address.
"""
SMALL_SIZE_KINDS = ("own", "near", "normal", "heavy", "shifted", "zeros", "uniform", "wide", "constant", "tiny", "shifted", "nonfinite")
BENCH_KINDS = ("own", "near", "wide", "shifted", "tiny")
"""At the timed size: kinds that expose work which a kernel might skip only there, such as a maximum or an epsilon."""
CASE_PLANS: dict[tuple[str, bool], dict[str, tuple[str, ...]]] = {
    ("strict", False): {
        "small": SMALL_SIZE_KINDS,
        "held_out": ("own", "near", "normal", "wide"),
        "odd": ("own", "uniform"),
        "bench": BENCH_KINDS,
    },
    ("strict", True): {
        "small": SMALL_SIZE_KINDS,
        "held_out": ("own", "normal", "wide"),
        "odd": ("own",),
        "laptop": ("own",),
        "bench": ("own",),
    },
    ("paper", False): {"small": ("own",), "bench": ("own",) * 5},
    ("paper", True): {"small": ("own",) * 5, "laptop": ("own",), "bench": ("own",)},
}
"""The kinds of inputs (`input_distributions.py`) at each size, by protocol and by whether kernels run in simulation, where each case is
slow."""
TUNING_PLAN: dict[str, tuple[str, ...]] = {"bench": ("own",)}
"""For a setting of tunables: no size that generators do not know, since the result of every setting becomes known."""
CONFIRMATION_SIZES = ("odd", "laptop")
TIMED_SLOTS = 2
MEMORY_BYTES, MAX_STDERR_BYTES = 1 << 30, 4 << 20
SIMULATED_BYTES, PROGRAM_BYTES = 8 << 30, 64 << 20
"""The address space of a process that traces or simulates, and the files that it may write."""


class Evaluator(Protocol):
    """How the kernels of a backend are screened, built and timed; `evaluators.py` chooses it once from the backend's capabilities."""

    def screen(self, trial: Trial) -> None:
        """Let the backend inspect the source text or the traced program. Raises CandidateError with the first rule violations."""

    def build(self, trial: Trial) -> None:
        """Build the candidate."""

    def measure(self, trial: Trial) -> TimingResult:
        """Return paired latencies of the candidate, the incumbent and the baselines."""


class CallArrays(Protocol):
    """The arrays of one call, such as those of a case."""

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The arrays that the kernel reads."""

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The arrays that it writes."""


class PartsCheck(Protocol):
    """The check of a timed size that is run in parts (`parts.py`)."""

    @property
    def run_share(self) -> float:
        """The share of the outputs' elements that parts of the kernel computed."""

    @property
    def compared_share(self) -> float:
        """The share of the outputs' elements that were compared with the reference."""

    @property
    def random_parts(self) -> int:
        """How many parts ran at random positions."""

    def check(self, kind: str, random_parts: int = ...) -> None:
        """Run parts of the kernel on inputs of this kind, and compare tiles of what they write."""


@dataclass(eq=False)
class Trial:
    """One candidate's passage through the gates, and the results."""

    job: Job
    backend: Backend
    evaluator: Evaluator
    workdir: Path
    arena: Arena | None = None
    candidate_process: CandidateProcess | None = None
    timing: TimingResult | None = None
    profile: Profile | None = None
    slots: dict[str, list[BufferSlot]] = field(default_factory=dict)
    drawn_cases: dict[str, list[Case]] = field(default_factory=dict)
    skipped_checks: list[str] = field(default_factory=list)
    """Checks and sandbox layers that are not available on this machine."""
    usage: Usage = Usage()
    compared_runs: int = 0
    """How many complete runs had their values compared."""
    partial_run_sizes: set[str] = field(default_factory=set)
    """Sizes at which only a part of the kernel ran."""
    parts_check: PartsCheck | None = None
    """What was run and compared at a timed size that is run in parts."""
    sanitizer_run: Future[None] | None = None
    """A run of an external sanitizer that began during the check."""

    def __enter__(self) -> Trial:
        self.seed = self.job.seed if self.job.clock == "synthetic" else secrets.randbits(48)  # unknown when the candidate was written
        self.threads = int(str(self.job.settings.get("threads") or 1))
        is_secret = self.job.clock != "synthetic"
        self.cases = Cases(self.job.task, self.seed, self.threads, protocol=self.job.protocol, is_secret=is_secret)
        return self

    def __exit__(self, *_: object) -> None:
        self.cases.close()
        if self.sanitizer_run:
            wait([self.sanitizer_run])
        if self.candidate_process:
            self.candidate_process.close()
        if self.arena:
            self.arena.close()

    def is_expensive(self, size: str) -> bool:
        """Whether a size is large and runs in simulation, where a second run costs much and shows little."""
        return size in ("laptop", "bench") and self.is_simulated

    @property
    def is_simulated(self) -> bool:
        """Whether kernels run in simulation, so that every further case is slow."""
        return self.backend.capabilities.is_simulated

    @property
    def is_traced(self) -> bool:
        """Whether the verified program is a trace of the candidate, which cannot read outside its arguments."""
        return self.backend.capabilities.tracing != "no"

    @property
    def case_plan(self) -> dict[str, tuple[str, ...]]:
        """The kinds of inputs to test at each size."""
        if self.job.purpose == "tuning":
            return TUNING_PLAN
        return CASE_PLANS[self.job.protocol, self.is_simulated]

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The sizes at which this candidate runs, in order."""
        backend_sizes = self.backend.sizes_for(self.job.candidate)
        is_single_size = backend_sizes == ("bench",)  # a kernel for a single size runs at no other
        allowed_sizes = backend_sizes if is_single_size else (*backend_sizes, *CONFIRMATION_SIZES)
        left_out = "bench" if self.is_run_in_parts else "laptop"
        return tuple(
            size for size in SIZES if size in allowed_sizes and size != left_out and self.case_plan.get(size) and self.cases.has_size(size)
        )

    @property
    def is_run_in_parts(self) -> bool:
        """Whether the timed size is too large to run whole, so that only parts of it are run."""
        return "laptop" in self.job.task.sizes and self.backend.capabilities.can_run_parts

    @property
    def is_checked_on_device(self) -> bool:
        """Whether the cases of the timed size exist on the backend's device only."""
        return self.backend.capabilities.checks_on_device and self.job.clock != "synthetic"

    @property
    def first_sizes(self) -> tuple[str, ...]:
        """The sizes at which every candidate must be correct; in simulation, the other sizes are only for kernels that would become the
        best."""
        return tuple(size for size in self.sizes if size not in CONFIRMATION_SIZES) if self.is_simulated else self.sizes

    def get_case(self, size: str, index: int) -> Case:
        """Return one case of a size."""
        return self.list_cases(size)[index]

    def list_cases(self, size: str) -> list[Case]:
        """Return the cases of a size; kinds for which the operator is not defined are replaced by further cases of the task's own kind."""
        if size not in self.drawn_cases:
            kinds = self.case_plan.get(size, ("own",))
            planned_cases = [self.cases.get_planned_case(size, kinds[:index].count(kind), kind) for index, kind in enumerate(kinds)]
            cases = [case for case in planned_cases if case is not None]
            while len(cases) < min(len(kinds), MIN_CASES):
                cases.append(self.cases.draw_case(size, len(cases)))
            self.drawn_cases[size] = cases
        return self.drawn_cases[size]

    def make_call_shapes(self) -> dict[str, CallShape]:
        """Return the call shapes of a traced candidate at every size."""
        signature = self.job.task.signature
        tensors = [tuple((t.name, t.dtype, t.shape) for t in part) for part in ((*signature.inputs, *signature.params), signature.outputs)]
        scalars = tuple((number.name, number.kind, number.value) for number in signature.scalars)
        drawn_shapes = {size: make_call_shape(self.get_case(size, 0)) for size in self.sizes if size != "bench"}
        return {"bench": CallShape(tensors[0], scalars, tensors[1])} | drawn_shapes

    def trace_candidate(self, source: Path | None = None) -> None:
        """Run the candidate's own code once, in a process that then ends, and start the process that runs the traced programs.

        `source` is the folder of a built candidate; otherwise its files are written to a new folder.
        """
        if source is None:
            source = self.workdir / "candidate"
            source.mkdir()
            paths.write_files(source, self.job.candidate.files)
        calls = self.make_call_shapes()  # first: this process loads PyTorch while another loads the backend
        with closing(Arena(0, 0, 0)) as arena:
            with closing(CandidateProcess(self.job, self.backend, self.workdir, arena, 1, SIMULATED_BYTES, PROGRAM_BYTES)) as process:
                process.wait_ready()
                try:
                    process.prepare("trace", source, calls, self.workdir / "programs")
                except InfraError as error:  # reported or caused by the candidate's own code
                    raise CandidateError("killed", f"the process that traces the kernel failed: {error}") from error
        self.start_process([self.get_case(size, 0) for size in self.sizes if size != "bench"]).wait_ready()
        self.run_preparation("inspect")

    def run_preparation(self, step: str) -> None:
        """Let the candidate process inspect or lower the traced programs."""
        assert self.candidate_process
        self.candidate_process.prepare(step, self.workdir / "programs", self.make_call_shapes(), self.workdir / step)

    def start_process(self, cases: Sequence[CallArrays], arena: Arena | None = None) -> CandidateProcess:
        """Start a candidate process with room for these cases and for the timed ones, in new memory unless an arena is passed."""
        signature = self.job.task.signature
        bench_input_bytes = compute_span_bytes([make_blank_array(tensor) for tensor in (*signature.inputs, *signature.params)])
        bench_output_bytes = compute_span_bytes([make_blank_array(tensor) for tensor in signature.outputs])
        timed_slots = 0 if self.is_checked_on_device else 1 if self.is_run_in_parts else TIMED_SLOTS
        input_bytes = timed_slots * bench_input_bytes + sum(compute_span_bytes(case.inputs) for case in cases)
        output_bytes = timed_slots * bench_output_bytes + sum(compute_span_bytes(case.outputs) for case in cases)
        self.arena = arena or Arena(input_bytes, output_bytes, seed_from_text(f"{self.seed}/poison"))
        copies = 2 if self.is_run_in_parts else 4  # of the timed tensors: address space that a simulator reserves, or a kernel allocates
        memory_bytes = (
            2 * input_bytes
            + output_bytes
            + copies * (bench_input_bytes + bench_output_bytes)
            + MEMORY_BYTES
            + (256 << 20) * (self.threads - 1)
        )
        if self.is_simulated or self.is_traced:
            memory_bytes += SIMULATED_BYTES
        self.candidate_process = CandidateProcess(
            self.job, self.backend, self.workdir, self.arena, self.threads, memory_bytes, PROGRAM_BYTES
        )
        return self.candidate_process

    def get_slot(self, case: Case, index: int = 0) -> BufferSlot:
        """Return a slot for a size; it is allocated and bound at first use."""
        assert self.arena is not None
        assert self.candidate_process is not None
        slots = self.slots.setdefault(case.size, [])
        if index == len(slots):
            slots.append(self.arena.add_slot(case.inputs, case.outputs))
            with self.translate_errors():
                self.candidate_process.bind(slots[index], case.scalars)
        return slots[index]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Let a backend that knows more than the system explain a failure in the candidate process."""
        try:
            yield
        except CandidateError as error:
            explained_error = self.backend.explain_failure(self.job.candidate, self.workdir, error)
            if explained_error is error:
                raise
            raise explained_error from error

    def stderr_tail(self, offset: int = 0) -> str:
        """Return the end of the text that the candidate process wrote to stderr, or of the text since an offset."""
        assert self.candidate_process is not None
        return self.candidate_process.read_stderr(MAX_STDERR_BYTES, max(offset, self.candidate_process.stderr_size() - MAX_STDERR_BYTES))

    def is_partial_run(self, case: Case, stderr_offset: int) -> bool:
        """Whether the last run skipped a part of the kernel, so that its values prove nothing; note it once per size."""
        line = self.backend.partial_run_note(self.workdir, self.stderr_tail(stderr_offset))
        if line and case.size not in self.partial_run_sizes:
            self.partial_run_sizes.add(case.size)
            where = "only where that part wrote" if self.sizes == (case.size,) else "at smaller sizes"
            self.skipped_checks.append(f"at size {case.size}, {line} for the latency estimate: values were checked {where}")
        return bool(line)

    def verify_outputs(self, case: Case, slot: BufferSlot, stderr_offset: int = 0) -> None:
        """Verify the outputs in a slot: guard bands and inputs first, then every element, then equality with an earlier run."""
        assert self.arena
        if stray_writes := self.arena.find_stray_writes(slot):
            raise CandidateError(
                "out_of_bounds",
                f"the kernel wrote outside its outputs: {', '.join(stray_writes)} ({describe_size(case)}); check the bounds of every store",
            )
        if changed_inputs := self.arena.find_changed_inputs(slot, case.inputs):
            raise CandidateError(
                "inputs",
                f"the kernel changed its input {', '.join(changed_inputs)} ({describe_size(case)}): "
                "inputs are read-only, write to the outputs only",
            )
        results = self.arena.copy_outputs(slot)
        if self.is_partial_run(case, stderr_offset):
            if self.sizes == (case.size,):  # no other size verifies the kernel
                self.verify_written_elements(case, slot, results)
            return
        self.compared_runs += 1
        if case.accepted_results:
            for expected, result, earlier in zip(case.expected, results, case.accepted_results, strict=True):
                if result.tobytes() != earlier.tobytes():
                    self.raise_on_difference(case, slot, results)
                    difference = f"output `{expected.array.name}` differs between two runs on equal inputs"
                    raise CandidateError(
                        "nondeterministic",
                        f"{difference} ({describe_size(case)}): look for a data race, or for memory that is read before it is set",
                    )
            return
        self.raise_on_difference(case, slot, results)
        case.accepted_results = results

    def verify_written_elements(self, case: Case, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """Verify a partial run: elements that it left unwritten count as correct."""
        assert self.arena
        is_correct = True
        for expected, result, poison in zip(case.expected, results, self.arena.poisons[slot.slot_id], strict=True):
            is_unwritten = result.reshape(-1).view(poison.dtype) == poison
            self.compared_runs += not is_unwritten.all()
            is_correct &= expected.is_correct_at(result, np.flatnonzero(~is_unwritten))
            np.copyto(result.reshape(-1), expected.array.data.reshape(-1), where=is_unwritten)
        if not is_correct:
            self.raise_on_difference(case, slot, results)

    def raise_on_difference(self, case: Case, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """Raise CandidateError for the first output that differs from the reference."""
        assert self.arena
        for expected, result, poison in zip(case.expected, results, self.arena.poisons[slot.slot_id], strict=True):
            if difference := expected.find_difference(result, poison):
                raise CandidateError(difference.reason, describe_difference(difference, case.size, describe_shapes(case), case.kind))


def make_call_shape(case: Case) -> CallShape:
    """Return the call shape of a case."""
    inputs = tuple((array.name, array.dtype, tuple(array.data.shape)) for array in case.inputs)
    outputs = tuple((array.name, array.dtype, tuple(array.data.shape)) for array in case.outputs)
    return CallShape(inputs, case.scalars, outputs)


def describe_shapes(case: Case) -> str:
    """List the tensors of a case with their shapes."""
    return ", ".join(f"{array.name} {list(array.data.shape)}" for array in (*case.inputs, *case.outputs))


def describe_size(case: Case) -> str:
    """Describe the size of a case, without revealing a hidden one."""
    return "at a hidden size" if is_hidden(case.size) else f"at size {case.size}: {describe_shapes(case)}"
