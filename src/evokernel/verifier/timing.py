"""The time gate's measurements: candidate, incumbent and baselines in turn on the verifier's clock, with every timed output verified.

With one thread a sample is the CPU time charged to the candidate process: other load hardly disturbs it, and a helper thread cannot lower
it. With several threads a sample is wall time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import ceil
from random import Random
from typing import NamedTuple

import numpy as np

from evokernel.core.backend import TimingResult
from evokernel.core.devices import hold_device
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Job, Outcome
from evokernel.core.seeds import seed_from_text
from evokernel.core.statistics import is_significant, median_interval, quantile
from evokernel.verifier.candidate_main import PERTURB, ROTATE, SWAP_PAIR, InputChange, apply_input_changes, view_bits
from evokernel.verifier.candidate_process import CommandTiming
from evokernel.verifier.cases import Case, Cases, find_changeable_inputs
from evokernel.verifier.compare import decode_values
from evokernel.verifier.incumbent import log_failure, start_kernel
from evokernel.verifier.shared_buffers import BufferSlot
from evokernel.verifier.trial import Trial

log = logging.getLogger(__name__)
WINDOW_S = 0.002
EXTENSION_FACTOR = 3.0
"""Times the job's `timing_s` for one kernel, if few calls fit or if candidate and incumbent are close."""
TARGET_PAIRS, MIN_PAIRS, MAX_PAIRS = 20, 3, 60
PRECISION, NARROW_WIN = 0.02, 1.1
DRAW_SHARE = 0.3
"""The share of the time for drawing new inputs; after that, earlier inputs are reused."""
MAX_POOLED_CASES = 5
DECOY_SHARE = 0.5
"""The share of windows followed by a shorter one that does not count: a kernel cannot know which call is the last and verified one."""
MAX_CALLS = 100_000
CHANGE_COST_SAMPLES = 9
MAX_ZERO_SHARE = 0.01
"""Inputs with a larger share of zeros are only rotated: zeros have a meaning, and computing with values close to zero is slow."""
MAX_SCALE_CHANGE = 2.0
"""Outputs on changed inputs may be at most this many times larger or smaller than those on the task's own."""
SYNTHETIC_PAIRS = 12
BaselineFactory = Callable[[Case], Callable[[], object]]
MAX_READINGS = 3
EMPTY_RUNS, MAX_OVERHEAD_S = 15, 0.0002
"""The number of trials for the cost of an empty command, and its maximum: the candidate process itself takes this time."""
MAX_IDLE_SHARE, MAX_IDLE_S = 0.03, 0.002
MAX_THREAD_SHARE, THREAD_SLACK_S = 1.05, 0.002
"""One thread cannot be charged more CPU time than the wall time that passes; a little slack allows for reading the clocks."""
MIN_CLOCK_AGREEMENT, SLACK_S, TICK_S = 0.5, 0.0005, 0.01
"""Clocks of the verifier and the candidate process that differ by half, and by more than a command takes, do not measure the same work; a
process sees its own CPU time advance in ticks."""
LATER_CALL_HINT = (
    "this was a later call with other inputs, and the earlier calls were correct: "
    "compute every call from its arguments, keep nothing between calls"
)


class AllowedChanges(NamedTuple):
    """The changes that the inputs of a task allow between two calls."""

    tensors: list[int]
    """The inputs whose elements may change."""
    kind: str
    """The strongest change allowed: elements must not rotate if the operator needs a certain order, such as matrices to invert, and must
    not get other values if they stand for something, such as labels or padding."""
    cost_s: float = 0.0
    """The time by which this change takes longer than swapping two elements of each input, measured outside the candidate process."""


class TimedKernel:
    """A kernel in its process, timed in turn with others. `trial` holds its process and memory; all sides share the cases."""

    def __init__(self, trial: Trial, cases: Cases, random: Random) -> None:
        assert trial.candidate_process is not None
        assert trial.arena is not None
        self.trial, self.process, self.arena = trial, trial.candidate_process, trial.arena
        self.cases, self.random = cases, random
        self.is_cpu_timed = trial.threads == 1 and self.process.read_cpu_s() is not None
        self.changeable_inputs: list[int] = []
        self.change_kind = SWAP_PAIR
        """The change applied to inputs between calls."""
        self.overhead_s = self.change_cost_s = 0.0
        """The cost of a command without any call, and the extra cost of changing all elements instead of swapping two."""
        self.idle_wall_s = self.idle_cpu_s = self.wall_s = self.cpu_s = 0.0
        self.idle_since: tuple[float, float] | None = None
        self.clock_ratios: list[float] = []
        """For every window, the wall time that the process reports as a share of the CPU time that the verifier measured. Short windows
        count, too: long ones alone may be those that were misread."""

    def warm_up(self, case: Case, changes: AllowedChanges) -> None:
        """Run equal contents at two addresses, which must give equal bits; then measure the cost of a command, and choose how inputs
        change."""
        for index in (0, 1):
            slot = self.trial.get_slot(case, index)
            self.arena.write_inputs(slot, case.inputs)
            self.arena.poison_outputs(slot)
            self.process.run(slot)
            self.verify_outputs(case, slot)
        overhead_s = quantile([self.charged_s(self.process.run(slot, 0)) for _ in range(EMPTY_RUNS)], 0.25)
        self.overhead_s = min(overhead_s, MAX_OVERHEAD_S)
        self.changeable_inputs = changes.tensors
        call_us = self.measure_window_us(case, 2)
        if changes.kind != SWAP_PAIR and changes.cost_s * 1e6 < call_us:  # a quicker kernel gains nothing by recognizing inputs
            self.change_kind, self.change_cost_s = changes.kind, changes.cost_s

    def draw_changes(self) -> list[InputChange]:
        """Draw a new series of changes, one for each changeable input."""
        return [
            (tensor, self.random.randrange(1 << 20), 2 * self.random.randrange(1 << 15) + 1, self.change_kind)
            for tensor in self.changeable_inputs
        ]

    def measure_window_us(self, case: Case, calls: int) -> float:
        """Measure one window, in which every call has different inputs, and verify its last outputs. Return the time per call.

        Address and contents change independently: a kernel that remembers results by address meets other contents there, and the reverse.
        """
        own_bits = [view_bits(array.data) for array in case.inputs]
        for _ in range(MAX_READINGS):
            slot = self.trial.get_slot(case, self.random.randrange(2))
            for tensor in self.changeable_inputs if self.change_kind in (ROTATE, PERTURB) else ():
                data = case.inputs[tensor].data
                data[...] = np.roll(data.reshape(-1), self.random.randrange(data.size)).reshape(data.shape)
            changes = self.draw_changes()
            apply_input_changes(own_bits, changes, 0)
            self.arena.write_inputs(slot, case.inputs)
            self.arena.poison_outputs(slot)
            self.end_idle()
            window = self.process.run(slot, calls, changes)
            self.begin_idle()
            for index in range(1, calls):
                apply_input_changes(own_bits, changes, index)
            if changes:
                self.cases.recompute_expected(case)
            self.verify_outputs(case, slot)
            cost_s = self.charged_s(window) - self.overhead_s - (calls - 1) * self.change_cost_s
            if cost_s > 0 and not self.is_misread(window):
                self.record_window(window)
                return cost_s / calls * 1e6
        # Correct outputs in less time than an empty command, or than the process reports: the CPU clock was misread, as happens in
        # virtual machines. Wall time never understates, so a process that lies about its clock only harms itself.
        return window.wall_s / calls * 1e6

    def is_misread(self, window: CommandTiming) -> bool:
        """Whether the verifier's clock shows much less time than the process reports."""
        cpu_s, wall_s = window.self_reported_s
        return (
            self.is_cpu_timed and self.charged_s(window) < MIN_CLOCK_AGREEMENT * cpu_s - TICK_S
        ) or window.wall_s < MIN_CLOCK_AGREEMENT * wall_s - SLACK_S

    def record_window(self, window: CommandTiming) -> None:
        """Add a window to the statistics that `check_clocks` tests."""
        self.wall_s += window.wall_s
        self.cpu_s += window.cpu_s or 0.0
        charged_s = min(self.charged_s(window), window.wall_s)  # more CPU time than wall time is a misreading
        self.clock_ratios.append((window.self_reported_s[1] + SLACK_S) / charged_s if charged_s > 2 * SLACK_S else 1.0)

    def verify_outputs(self, case: Case, slot: BufferSlot) -> None:
        """Verify a timed output. The kernel was correct in the check gate; the difference now is that it was called before."""
        try:
            self.trial.verify_outputs(case, slot)
        except CandidateError as error:
            raise CandidateError(error.reason, f"{error.detail}\n{LATER_CALL_HINT}") from error

    def charged_s(self, window: CommandTiming) -> float:
        """Return the seconds of a window on the clock that counts."""
        return window.cpu_s if self.is_cpu_timed and window.cpu_s is not None else window.wall_s

    def end_idle(self) -> None:
        """Add the wall and CPU time since the last window to the idle statistics."""
        if self.idle_since is not None and (cpu_s := self.process.read_cpu_s()) is not None:
            self.idle_wall_s += time.perf_counter() - self.idle_since[0]
            self.idle_cpu_s += cpu_s - self.idle_since[1]

    def begin_idle(self) -> None:
        """Remember when the process became idle."""
        cpu_s = self.process.read_cpu_s()
        self.idle_since = None if cpu_s is None else (time.perf_counter(), cpu_s)

    def check_clocks(self) -> None:
        """Raise CandidateError if the kernel worked outside the windows, used more than one thread, or tampered with clocks."""
        if not self.is_cpu_timed:
            return
        if self.idle_cpu_s > MAX_IDLE_S and self.idle_cpu_s > MAX_IDLE_SHARE * self.idle_wall_s:
            raise CandidateError(
                "forbidden",
                "the kernel keeps computing after its call has returned: finish all work before returning, and start no helper threads",
            )
        if self.cpu_s > MAX_THREAD_SHARE * self.wall_s + THREAD_SLACK_S:
            busy = self.cpu_s / self.wall_s
            raise CandidateError(
                "forbidden", f"the kernel keeps {busy:.2f} processors busy, but one thread is allowed: compute in the calling thread only"
            )
        if self.clock_ratios and quantile(self.clock_ratios, 0.5) < MIN_CLOCK_AGREEMENT:
            raise CandidateError(
                "forbidden", "the clocks in the candidate process do not show the time it takes: do not replace or change clock functions"
            )


class TimedIncumbent(TimedKernel):
    """The incumbent on the candidate's tensors, verified against the reference alone: the cases hold the candidate's accepted results."""

    def warm_up(self, case: Case, changes: AllowedChanges) -> None:
        for slot in self.arena.slots:  # all of them, because slot ids count from the first; only slots of the timed size run
            self.process.bind(slot, case.scalars)
        super().warm_up(case, changes)

    def verify_outputs(self, case: Case, slot: BufferSlot) -> None:
        accepted_results = case.accepted_results
        case.accepted_results = []
        try:
            self.trial.verify_outputs(case, slot)
        finally:
            case.accepted_results = accepted_results


def merge_timings(first: TimingResult, second: TimingResult) -> TimingResult:
    """Add the samples of another start, unless it has no incumbent samples."""
    if not second.incumbent_us:
        return first
    baselines = {name: us + second.baseline_us[name] for name, us in first.baseline_us.items() if name in second.baseline_us}
    samples_us, incumbent_us = first.samples_us + second.samples_us, first.incumbent_us + second.incumbent_us
    return TimingResult(first.clock, samples_us, baselines, incumbent_us=incumbent_us)


def make_timed_outcome(job: Job, timing: TimingResult) -> Outcome:
    """Return the samples as an outcome without gates."""
    return Outcome(
        gates=(),
        samples_us=timing.samples_us,
        baseline_us=timing.baseline_us,
        clock=timing.clock,
        incumbent_us=timing.incumbent_us,
        incumbent=job.incumbent.id if job.incumbent and timing.incumbent_us else "",
    )


class InputPool:
    """Inputs for timed windows: new ones while drawing is cheap, then the pooled ones in turn."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.draw_time_s, self.draw_count = trial, 0.0, 0
        self.can_reuse_cases = True
        """Whether reused inputs are changed first; inputs that cannot change are not reused."""
        self.cases: list[Case] = []

    def next_case(self) -> Case:
        """Return the inputs of the next window."""
        if len(self.cases) < 2 or not self.can_reuse_cases or self.draw_time_s < DRAW_SHARE * self.trial.job.timing_s:
            start_s = time.perf_counter()
            self.draw_count += 1
            case = self.trial.cases.draw_case("bench", self.draw_count)
            self.draw_time_s += time.perf_counter() - start_s
            self.cases = [*self.cases[-(MAX_POOLED_CASES - 1) :], case]
            return case
        self.cases = [*self.cases[1:], self.cases[0]]
        return self.cases[-1]


def measure_candidate(trial: Trial) -> TimingResult:
    """Time windows of equal work, A B A B, until the ratio is precise enough or the time is used up."""
    best = trial.job.incumbent
    with hold_device("timing") if trial.threads > 1 else nullcontext():  # with several threads, one timing at a time on this machine
        with start_kernel(trial, best, "incumbent", trial) as incumbent:
            timing = PairedTimer(trial, incumbent).measure()
        if not is_narrow_win(make_timed_outcome(trial.job, timing)):
            return timing
        with (
            start_kernel(trial, trial.job.candidate, "again") as second_start,
            start_kernel(trial, best, "incumbent", second_start) as incumbent,
        ):
            return merge_timings(timing, PairedTimer(second_start, incumbent).measure()) if second_start and incumbent else timing


class PairedTimer:
    """Times one candidate, paired with the incumbent if there is one."""

    def __init__(self, trial: Trial, incumbent: Trial | None = None) -> None:
        self.trial, self.pool = trial, InputPool(trial)
        self.candidate = TimedKernel(trial, trial.cases, Random(seed_from_text(f"{trial.seed}/swaps")))
        self.incumbent = TimedIncumbent(incumbent, trial.cases, Random(seed_from_text(f"{trial.seed}/incumbent"))) if incumbent else None
        if incumbent:
            incumbent.slots = trial.slots
        self.candidate_calls = self.incumbent_calls = 1

    def measure(self) -> TimingResult:
        """Measure until there are enough samples, then check the clocks."""
        baselines = self.select_baselines()
        counts = self.calibrate_calls(baselines)
        start_s = time.perf_counter()
        samples: list[float] = []
        incumbent_samples: list[float] = []
        baseline_samples: dict[str, list[float]] = {name: [] for name in baselines}
        while not self.has_enough_samples(samples, incumbent_samples, baseline_samples, time.perf_counter() - start_s):
            case, is_even = self.pool.next_case(), len(samples) % 2 == 0
            if not is_even:  # alternate who comes first
                self.sample_incumbent(incumbent_samples, case)
            samples.append(self.candidate.measure_window_us(case, self.candidate_calls))
            if self.candidate_calls > 1 and self.candidate.random.random() < DECOY_SHARE:
                self.candidate.measure_window_us(case, self.candidate.random.randrange(1, self.candidate_calls))
            if is_even:
                self.sample_incumbent(incumbent_samples, case)
            for name, make_call in baselines.items():
                baseline_samples[name].append(self.time_baseline_us(make_call(case), counts[name]))
        self.candidate.check_clocks()
        with self.drop_failed_incumbent():
            if self.incumbent:
                self.incumbent.check_clocks()
        clock = "cpu" if self.candidate.is_cpu_timed else "wall"
        baseline_us = {name: tuple(values) for name, values in baseline_samples.items()}
        return TimingResult(clock, tuple(samples), baseline_us, incumbent_us=tuple(incumbent_samples if self.incumbent else ()))

    def sample_incumbent(self, samples: list[float], case: Case) -> None:
        """Measure one window of the incumbent."""
        with self.drop_failed_incumbent():
            if self.incumbent:
                samples.append(self.incumbent.measure_window_us(case, self.incumbent_calls))

    @contextmanager
    def drop_failed_incumbent(self) -> Iterator[None]:
        """Drop an incumbent that fails; its failure is not the candidate's, which is then timed without it."""
        try:
            yield
        except (CandidateError, InfraError, OSError) as error:
            assert self.incumbent is not None
            log_failure(self.incumbent.trial, error)
            self.incumbent = None

    def select_baselines(self) -> dict[str, BaselineFactory]:
        """Return the baselines that the job names."""
        cases = self.trial.cases
        available: dict[str, BaselineFactory] = {"eager": cases.make_baseline, "compile": CompiledBaseline(self.trial)}
        for name in self.trial.job.baselines:
            if name not in available:
                raise UserError(f"unknown baseline '{name}'; known baselines: {', '.join(available)}")
        return {name: available[name] for name in self.trial.job.baselines}

    def calibrate_calls(self, baselines: dict[str, BaselineFactory]) -> dict[str, int]:
        """Return the calls per window of each baseline, and set those of the kernels: one call if inputs cannot change. This also warms up
        all sides."""
        changes = self.find_allowed_changes(self.pool.next_case())
        self.pool.can_reuse_cases = bool(changes.tensors)
        self.candidate.warm_up(self.pool.next_case(), changes)
        case = self.pool.next_case()
        self.candidate_calls = find_call_count(partial(self.candidate.measure_window_us, case)) if changes.tensors else 1
        with self.drop_failed_incumbent():
            if self.incumbent:
                self.incumbent.warm_up(case, changes)
                self.incumbent_calls = find_call_count(partial(self.incumbent.measure_window_us, case)) if changes.tensors else 1
        counts = {}
        for name in list(baselines):
            try:
                call = baselines[name](case)
                call()
                counts[name] = find_call_count(partial(self.time_baseline_us, call))
            except RuntimeError as error:  # torch.compile may lack a compiler, or not support the operator
                if name == "eager":
                    raise
                log.warning("%s: baseline %s is skipped: %s", self.trial.job.task.id, name, str(error).partition("\n")[0])
                del baselines[name]
        return counts

    def find_allowed_changes(self, case: Case) -> AllowedChanges:
        """Find the strongest change of the inputs that the reference still handles as inputs of the same kind."""
        if not (tensors := find_changeable_inputs(case)):
            return AllowedChanges([], SWAP_PAIR)
        own = [view_bits(array.data) for array in case.inputs]
        magnitudes = measure_outputs(case)
        has_zeros = any(
            np.count_nonzero(case.inputs[tensor].data) < (1 - MAX_ZERO_SHARE) * case.inputs[tensor].data.size for tensor in tensors
        )
        strongest = ""
        try:
            for kind in (SWAP_PAIR, ROTATE) if has_zeros else (SWAP_PAIR, ROTATE, PERTURB):
                for index in range(4):
                    apply_input_changes(own, [(tensor, 0, 1, kind) for tensor in tensors], index)
                self.trial.cases.recompute_expected(case)
                if kind != SWAP_PAIR and not all(
                    old / MAX_SCALE_CHANGE <= new <= MAX_SCALE_CHANGE * old
                    for old, new in zip(magnitudes, measure_outputs(case), strict=True)
                ):
                    raise UserError(f"changed inputs ({kind}) are of another kind")
                strongest = kind
        except UserError:
            self.pool.cases.remove(case)
        cost_s = (
            measure_change_cost([view_bits(case.inputs[tensor].data.copy()) for tensor in tensors], strongest)
            if strongest not in ("", SWAP_PAIR)
            else 0.0
        )
        return AllowedChanges(tensors if strongest else [], strongest or SWAP_PAIR, cost_s)

    def time_baseline_us(self, call: Callable[[], object], calls: int) -> float:
        """Measure a baseline on the matching clock of this thread; a first call allocates memory, as for kernels."""
        now = time.thread_time if self.candidate.is_cpu_timed else time.perf_counter
        call()
        start = now()
        for _ in range(calls):
            call()
        return (now() - start) / calls * 1e6

    def has_enough_samples(self, samples: list[float], best: list[float], others: dict[str, list[float]], elapsed_s: float) -> bool:
        """Whether the ratio to the incumbent, or else to the first baseline, is precise enough, or the time is used up."""
        if len(samples) < MIN_PAIRS:
            return False
        budget_s = self.trial.job.timing_s
        if len(samples) < TARGET_PAIRS:
            return elapsed_s > EXTENSION_FACTOR * budget_s
        reference: Sequence[float] = best if self.incumbent else next(iter(others.values()), [1.0] * len(samples))
        interval = median_interval([other / own for own, other in zip(samples, reference)])
        assert interval is not None
        width = (interval[1] - interval[0]) / (interval[1] + interval[0])
        if self.incumbent and is_undecided(interval):
            return width < PRECISION / 2 or elapsed_s > EXTENSION_FACTOR * budget_s or len(samples) >= 2 * MAX_PAIRS
        if width < PRECISION or (self.incumbent and is_significant(interval, PRECISION)):
            return True
        return elapsed_s > budget_s or len(samples) >= MAX_PAIRS


def measure_outputs(case: Case) -> list[float]:
    """Return the root mean square of each expected output; infinite if an output is not finite."""
    values = [decode_values(expected.array.data, expected.array.dtype).astype(np.float64) for expected in case.expected]
    return [float(np.sqrt(np.mean(np.square(value)))) if np.isfinite(value).all() and value.size else float("inf") for value in values]


def measure_change_cost(tensors: list[memoryview], kind: str) -> float:
    """Return the CPU seconds by which changing all elements takes longer than swapping two of each input (median of a few)."""
    seconds_by_kind: dict[str, list[float]] = {kind: [], SWAP_PAIR: []}
    for index, measured_kind in enumerate((kind, SWAP_PAIR) * CHANGE_COST_SAMPLES):
        start_s = time.thread_time()
        apply_input_changes(tensors, [(tensor, 0, 1, measured_kind) for tensor in range(len(tensors))], index)
        seconds_by_kind[measured_kind].append(time.thread_time() - start_s)
    return max(0.0, quantile(seconds_by_kind[kind], 0.5) - quantile(seconds_by_kind[SWAP_PAIR], 0.5))


def is_narrow_win(outcome: Outcome) -> bool:
    """Whether a kernel is slightly faster than the incumbent: its memory may be placed better by chance, so both start again."""
    interval = outcome.speedup_interval("incumbent")
    return interval is not None and is_significant(interval) and 1 < interval[0] < NARROW_WIN


def is_undecided(interval: tuple[float, float]) -> bool:
    """Whether a kernel may be faster than the incumbent, and may also not be."""
    return not is_significant(interval) and interval[0] + interval[1] > 2


def find_call_count(measure_call_us: Callable[[int], float]) -> int:
    """Find by trial the number of calls that fill a window: a single short call says little."""
    calls = 1
    while True:
        window_s = measure_call_us(calls) * calls * 1e-6
        if window_s > 0.7 * WINDOW_S or calls >= MAX_CALLS:
            return calls
        calls = min(MAX_CALLS, max(2 * calls, ceil(calls * WINDOW_S / max(window_s, WINDOW_S / 50))))


class CompiledBaseline:
    """The reference through torch.compile; compiling takes seconds, so all windows share one case."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.call: Callable[[], object] | None = None

    def __call__(self, case: Case) -> Callable[[], object]:
        if self.call is None:
            import torch

            module: Callable[..., object] = torch.compile(case.sample.module)
            self.call = self.trial.cases.make_baseline(case, lambda *inputs: module(*inputs))
        return self.call


def make_synthetic_timing(job: Job) -> TimingResult:
    """Derive samples from the candidate and the task alone, for runs that must be reproducible byte by byte."""
    base_us = 10 ** Random(job.task.id).uniform(2, 4)
    candidate_us = base_us * 10 ** Random(f"{job.candidate.id}/{job.task.id}").uniform(-1, 0.7)
    noise = Random(f"{job.task.id}/{job.candidate.id}/samples")
    samples = tuple(round(candidate_us * noise.uniform(0.99, 1.01), 3) for _ in range(SYNTHETIC_PAIRS))
    baselines = {name: tuple(round(base_us * noise.uniform(0.99, 1.01), 3) for _ in range(SYNTHETIC_PAIRS)) for name in job.baselines}
    incumbent_us = (
        make_synthetic_timing(job.model_copy(update={"candidate": job.incumbent, "incumbent": None})).samples_us if job.incumbent else ()
    )
    return TimingResult("synthetic", samples, baselines, incumbent_us=incumbent_us)
