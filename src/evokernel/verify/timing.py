"""How fast: the judge's clock, candidate, best kernel so far and baselines in turn, every timed output judged.

With one thread a sample is the CPU time charged to the child, which others on the machine can hardly disturb and a helper thread cannot
lower; otherwise it is wall time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import ceil
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.devices import hold_device
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Job, Outcome
from evokernel.core.statistics import is_significant, median_interval, quantile
from evokernel.verify.candidate_main import MOVED, OTHER, PAIR, bits_of, change
from evokernel.verify.cases import Case, changeable, seed_of
from evokernel.verify.compare import numbers
from evokernel.verify.incumbent import started, tell
from evokernel.verify.timing_window import Changes, Incumbent, TimedKernel

if TYPE_CHECKING:
    from evokernel.verify.trial import Trial

log = logging.getLogger(__name__)
WINDOW_S = 0.002
LONGER = 3.0
"""Times the job's `timing_s` for one kernel, where few calls fit, or where it is close who is faster."""
PAIRS, FEWEST, MOST = 20, 3, 60
PRECISION, NARROW = 0.02, 1.1
DRAW_SHARE = 0.3
"""Of the time may go into drawing new inputs; after that earlier ones come again."""
KEPT = 5
SHORTER = 0.5
"""Of the windows are followed by one of fewer calls that does not count: nobody can know which call is the last and judged one."""
MOST_CALLS = 100_000
CHANGES = 9
ZEROS = 0.01
"""With a larger share of zeros than this, inputs only move: zeros mean something, and what is nearly zero is slow to compute with."""
ALIKE = 2.0
"""Outputs of changed inputs are at most so many times as large or small as those of the task's own."""
SYNTHETIC_PAIRS = 12
Baseline = Callable[[Case], Callable[[], object]]


class Timing(NamedTuple):
    """Samples per call, paired one to one."""

    samples_us: tuple[float, ...]
    baseline_us: dict[str, tuple[float, ...]]
    clock: str
    incumbent_us: tuple[float, ...] = ()

    def joined(self, other: Timing) -> Timing:
        """With the samples of another start; without them where that had nothing beside it."""
        if not other.incumbent_us:
            return self
        baselines = {name: us + other.baseline_us[name] for name, us in self.baseline_us.items() if name in other.baseline_us}
        return Timing(self.samples_us + other.samples_us, baselines, self.clock, self.incumbent_us + other.incumbent_us)

    def outcome(self, job: Job) -> Outcome:
        """As it goes into a verdict."""
        incumbent = job.incumbent.id if job.incumbent and self.incumbent_us else ""
        return Outcome(
            gates=(),
            samples_us=self.samples_us,
            baseline_us=self.baseline_us,
            clock=self.clock,
            incumbent_us=self.incumbent_us,
            incumbent=incumbent,
        )


class Pool:
    """Inputs for timed windows: new ones while that is cheap, then the kept ones in turn."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.spent_s, self.drawn = trial, 0.0, 0
        self.is_changing = True
        """Whether inputs that come again are changed first; where they cannot be, none comes again."""
        self.kept: list[Case] = []

    def next(self) -> Case:
        if len(self.kept) < 2 or not self.is_changing or self.spent_s < DRAW_SHARE * self.trial.job.timing_s:
            started = time.perf_counter()
            self.drawn += 1
            case = self.trial.cases.draw("bench", self.drawn)
            self.spent_s += time.perf_counter() - started
            self.kept = [*self.kept[-(KEPT - 1) :], case]
            return case
        self.kept = [*self.kept[1:], self.kept[0]]
        return self.kept[-1]


def measure(trial: Trial) -> Timing:
    """Windows of equal work, A B A B, until the ratio is known well enough or the time is spent."""
    best = trial.job.incumbent
    with hold_device("timing") if trial.threads > 1 else nullcontext():  # several threads: one timing at a time on this machine
        with started(trial, best, "incumbent", trial) as incumbent:
            found = Clock(trial, incumbent).measure()
        if not is_narrow(found.outcome(trial.job)):
            return found
        with started(trial, trial.job.candidate, "again") as own, started(trial, best, "incumbent", own) as incumbent:
            return found.joined(Clock(own, incumbent).measure()) if own and incumbent else found


class Clock:
    """One candidate's timing, with the best kernel so far beside it where there is one."""

    def __init__(self, trial: Trial, incumbent: Trial | None = None) -> None:
        self.trial, self.pool = trial, Pool(trial)
        self.own = TimedKernel(trial, trial.cases, Random(seed_of(f"{trial.seed}/swaps")))
        self.other = Incumbent(incumbent, trial.cases, Random(seed_of(f"{trial.seed}/incumbent"))) if incumbent else None
        if incumbent:
            incumbent.slots = trial.slots
        self.calls = self.other_calls = 1

    def measure(self) -> Timing:
        baselines = self.baselines()
        counts = self.calibrate(baselines)
        started = time.perf_counter()
        samples: list[float] = []
        best: list[float] = []
        others: dict[str, list[float]] = {name: [] for name in baselines}
        while not self.enough(samples, best, others, time.perf_counter() - started):
            case, is_even = self.pool.next(), len(samples) % 2 == 0
            if not is_even:  # nobody always comes after the same one
                self.beside(best, case)
            samples.append(self.own.sample_us(case, self.calls))
            if self.calls > 1 and self.own.random.random() < SHORTER:
                self.own.sample_us(case, self.own.random.randrange(1, self.calls))
            if is_even:
                self.beside(best, case)
            for name, make in baselines.items():
                others[name].append(self.baseline_us(make(case), counts[name]))
        self.own.check()
        with self.unblamed():
            if self.other:
                self.other.check()
        clock = "cpu" if self.own.by_cpu else "wall"
        return Timing(tuple(samples), {name: tuple(values) for name, values in others.items()}, clock, tuple(best if self.other else ()))

    def beside(self, best: list[float], case: Case) -> None:
        """A window of the best kernel so far."""
        with self.unblamed():
            if self.other:
                best.append(self.other.sample_us(case, self.other_calls))

    @contextmanager
    def unblamed(self) -> Iterator[None]:
        """Trouble of the best kernel so far is not the candidate's, which is then timed without it."""
        try:
            yield
        except (CandidateError, InfraError, OSError) as error:
            assert self.other is not None
            tell(self.other.trial, error)
            self.other = None

    def baselines(self) -> dict[str, Baseline]:
        """What the candidate is held against."""
        cases = self.trial.cases
        known: dict[str, Baseline] = {"eager": cases.baseline, "compile": Compiled(self.trial)}
        for name in self.trial.job.baselines:
            if name not in known:
                raise UserError(f"no baseline called '{name}'; there are: {', '.join(known)}")
        return {name: known[name] for name in self.trial.job.baselines}

    def calibrate(self, baselines: dict[str, Baseline]) -> dict[str, int]:
        """How many calls make a window, a lone one where inputs cannot be changed in between; this also warms all sides up."""
        changes = self.changes(self.pool.next())
        self.pool.is_changing = bool(changes.tensors)
        self.own.warm_up(self.pool.next(), changes)
        case = self.pool.next()
        self.calls = filling(partial(self.own.sample_us, case)) if changes.tensors else 1
        with self.unblamed():
            if self.other:
                self.other.warm_up(case, changes)
                self.other_calls = filling(partial(self.other.sample_us, case)) if changes.tensors else 1
        counts = {}
        for name in list(baselines):
            try:
                call = baselines[name](case)
                call()
                counts[name] = filling(partial(self.baseline_us, call))
            except RuntimeError as error:  # torch.compile may lack a compiler, or not support the operator
                if name == "eager":
                    raise
                log.warning("%s: baseline %s is left out: %s", self.trial.job.task.id, name, str(error).partition("\n")[0])
                del baselines[name]
        return counts

    def changes(self, case: Case) -> Changes:
        """What the reference still takes for inputs of the same kind."""
        if not (found := changeable(case)):
            return Changes([], PAIR)
        own = [bits_of(array.data) for array in case.inputs]
        before = sizes_of(case)
        has_zeros = any(np.count_nonzero(case.inputs[which].data) < (1 - ZEROS) * case.inputs[which].data.size for which in found)
        known = ""
        try:
            for how in (PAIR, MOVED) if has_zeros else (PAIR, MOVED, OTHER):
                for index in range(4):
                    change(own, [(which, 0, 1, how) for which in found], index)
                self.trial.cases.renew(case)
                if how != PAIR and not all(old / ALIKE <= new <= ALIKE * old for old, new in zip(before, sizes_of(case), strict=True)):
                    raise UserError(f"inputs that were changed ({how}) are of another kind")
                known = how
        except UserError:
            self.pool.kept.remove(case)
        cost_s = cost_of_changes([bits_of(case.inputs[which].data.copy()) for which in found], known) if known not in ("", PAIR) else 0.0
        return Changes(found if known else [], known or PAIR, cost_s)

    def baseline_us(self, call: Callable[[], object], calls: int) -> float:
        """The same for code of ours, on the matching clock of this thread; as for kernels, nobody pays for memory that is new."""
        now = time.thread_time if self.own.by_cpu else time.perf_counter
        call()
        started = now()
        for _ in range(calls):
            call()
        return (now() - started) / calls * 1e6

    def enough(self, samples: list[float], best: list[float], others: dict[str, list[float]], elapsed_s: float) -> bool:
        """Whether the ratio is known, to the best kernel so far or else to the first baseline; or the time is over."""
        if len(samples) < FEWEST:
            return False
        budget_s = self.trial.job.timing_s
        if len(samples) < PAIRS:
            return elapsed_s > LONGER * budget_s
        reference: Sequence[float] = best if self.other else next(iter(others.values()), [1.0] * len(samples))
        interval = median_interval([other / own for own, other in zip(samples, reference)])
        assert interval is not None
        width = (interval[1] - interval[0]) / (interval[1] + interval[0])
        if self.other and is_close(interval):
            return width < PRECISION / 2 or elapsed_s > LONGER * budget_s or len(samples) >= 2 * MOST
        if width < PRECISION or (self.other and is_significant(interval, PRECISION)):
            return True
        return elapsed_s > budget_s or len(samples) >= MOST


def sizes_of(case: Case) -> list[float]:
    """How large the outputs are; infinite where one is not a number."""
    values = [numbers(expected.array.data, expected.array.dtype).astype(np.float64) for expected in case.expected]
    return [float(np.sqrt(np.mean(np.square(value)))) if np.isfinite(value).all() and value.size else float("inf") for value in values]


def cost_of_changes(tensors: list[memoryview], how: str) -> float:
    """Processor seconds that changing all of the inputs takes more than changing two elements of each, the middle of a few."""
    spent: dict[str, list[float]] = {how: [], PAIR: []}
    for index, each in enumerate((how, PAIR) * CHANGES):
        started = time.thread_time()
        change(tensors, [(which, 0, 1, each) for which in range(len(tensors))], index)
        spent[each].append(time.thread_time() - started)
    return max(0.0, quantile(spent[how], 0.5) - quantile(spent[PAIR], 0.5))


def is_narrow(outcome: Outcome) -> bool:
    """Whether a kernel is a little faster than the best so far: chance may have put it into a better place, so both start again."""
    interval = outcome.speedup_interval("incumbent")
    return interval is not None and is_significant(interval) and 1 < interval[0] < NARROW


def is_close(interval: tuple[float, float]) -> bool:
    """Whether a kernel may well be faster than the best so far, and may as well not be."""
    return not is_significant(interval) and interval[0] + interval[1] > 2


def filling(per_call_us: Callable[[int], float]) -> int:
    """How many calls fill a window, found by trying: a lone short call says little."""
    calls = 1
    while True:
        spent_s = per_call_us(calls) * calls * 1e-6
        if spent_s > 0.7 * WINDOW_S or calls >= MOST_CALLS:
            return calls
        calls = min(MOST_CALLS, max(2 * calls, ceil(calls * WINDOW_S / max(spent_s, WINDOW_S / 50))))


class Compiled:
    """The reference through torch.compile; compiling takes seconds, so one case serves all windows."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.call: Callable[[], object] | None = None

    def __call__(self, case: Case) -> Callable[[], object]:
        if self.call is None:
            import torch

            module: Callable[..., object] = torch.compile(case.sample.module)
            self.call = self.trial.cases.baseline(case, lambda *inputs: module(*inputs))
        return self.call


def synthetic(job: Job) -> Timing:
    """Samples that follow from the candidate and the task alone, for runs that must be equal to the byte."""
    base_us = 10 ** Random(job.task.id).uniform(2, 4)
    own_us = base_us * 10 ** Random(f"{job.candidate.id}/{job.task.id}").uniform(-1, 0.7)
    shake = Random(f"{job.task.id}/{job.candidate.id}/samples")
    samples = tuple(round(own_us * shake.uniform(0.99, 1.01), 3) for _ in range(SYNTHETIC_PAIRS))
    others = {name: tuple(round(base_us * shake.uniform(0.99, 1.01), 3) for _ in range(SYNTHETIC_PAIRS)) for name in job.baselines}
    best = synthetic(job.model_copy(update={"candidate": job.incumbent, "incumbent": None})).samples_us if job.incumbent else ()
    return Timing(samples, others, "synthetic", best)
