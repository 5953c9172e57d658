"""How fast: the judge's clock, candidate and baselines in turn, every timed output judged.

With one thread a sample is the CPU time charged to the child, which others on the machine can hardly disturb and a helper thread cannot
lower; otherwise it is wall time.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil, sqrt
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from evokernel.core.errors import CandidateError, UserError
from evokernel.core.records import Job
from evokernel.core.statistics import quantile
from evokernel.verify.cases import Case, changeable, seed_of
from evokernel.verify.child import bits_of, swap

if TYPE_CHECKING:
    from evokernel.verify.arena import Slot
    from evokernel.verify.sandbox import Window
    from evokernel.verify.trial import Trial

log = logging.getLogger(__name__)
WINDOW_S = 0.002
BUDGET_S = 1.0
PAIRS, FEWEST, MOST = 12, 3, 60
PRECISION = 0.01
DRAW_SHARE = 0.3
"""Of the budget may go into drawing new inputs; after that earlier ones come again."""
KEPT = 4
MOST_CALLS = 100_000
READINGS = 3
Baseline = Callable[[Case], Callable[[], object]]
IDLE_SHARE, IDLE_S = 0.03, 0.002


class Timing(NamedTuple):
    """Samples per call, paired one to one."""

    samples_us: tuple[float, ...]
    baseline_us: dict[str, tuple[float, ...]]
    clock: str


class Pool:
    """Inputs for timed windows: new ones while that is cheap, then the kept ones in turn."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.spent_s, self.drawn = trial, 0.0, 0
        self.kept: list[Case] = []

    def next(self) -> Case:
        if len(self.kept) < 2 or (self.spent_s < DRAW_SHARE * BUDGET_S):
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
    with machine_lock(trial.threads > 1):
        return Clock(trial).measure()


@contextmanager
def machine_lock(wanted: bool) -> Iterator[None]:
    """With several threads, one timing at a time on this machine."""
    if not wanted:
        yield
        return
    with open(Path(tempfile.gettempdir()) / f"evokernel-timing-{os.getuid()}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Clock:
    """One candidate's timing."""

    def __init__(self, trial: Trial) -> None:
        assert trial.child is not None
        assert trial.arena is not None
        self.trial, self.child, self.arena = trial, trial.child, trial.arena
        self.by_cpu = trial.threads == 1 and self.child.cpu_s() is not None
        self.pool = Pool(trial)
        self.random = Random(seed_of(f"{trial.seed}/swaps"))
        self.changing: list[int] = []
        self.idle_wall_s = self.idle_cpu_s = 0.0
        self.left: tuple[float, float] | None = None
        self.overhead_s = 0.0

    def measure(self) -> Timing:
        slot = self.trial.slots["bench"][0]
        self.overhead_s = quantile(tuple(self.cost(self.child.run(slot, 0)) for _ in range(15)), 0.25)
        baselines = self.baselines()
        calls, counts = self.calibrate(baselines)
        started = time.perf_counter()
        samples: list[float] = []
        others: dict[str, list[float]] = {name: [] for name in baselines}
        while not self.enough(samples, others, time.perf_counter() - started):
            case = self.pool.next()
            samples.append(self.candidate_us(case, len(samples) % 2, calls))
            for name, make in baselines.items():
                others[name].append(self.baseline_us(make(case), counts[name]))
        self.check_idle()
        return Timing(tuple(samples), {name: tuple(values) for name, values in others.items()}, "cpu" if self.by_cpu else "wall")

    def baselines(self) -> dict[str, Baseline]:
        """What the candidate is held against."""
        cases = self.trial.cases
        known: dict[str, Baseline] = {"eager": cases.baseline, "compile": Compiled(self.trial)}
        for name in self.trial.job.baselines:
            if name not in known:
                raise UserError(f"no baseline called '{name}'; there are: {', '.join(known)}")
        return {name: known[name] for name in self.trial.job.baselines}

    def calibrate(self, baselines: dict[str, Baseline]) -> tuple[int, dict[str, int]]:
        """How many calls make a window; this also warms both sides up."""
        self.changing = self.changes(self.pool.next())
        self.candidate_us(self.pool.next(), 1, 1)
        case = self.pool.next()
        calls = filling(lambda calls: self.candidate_us(case, 0, calls))
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
        return calls, counts

    def changes(self, case: Case) -> list[int]:
        """The inputs whose elements may change places between calls: none where the reference cannot do with other ones."""
        found = changeable(case)
        try:
            for index in range(4 * len(found)):
                swap([bits_of(array.data) for array in case.inputs], [(which, 0, 1) for which in found], index)
            self.trial.cases.renew(case)
        except UserError:
            self.pool.kept.remove(case)
            return []
        return found

    def candidate_us(self, case: Case, which: int, calls: int) -> float:
        """One window, in which no call has the inputs of any other; its last outputs are judged like any others."""
        slot: Slot = self.trial.slot(case, which)
        own = [bits_of(array.data) for array in case.inputs]
        for _ in range(READINGS):
            swaps = [(tensor, self.random.randrange(len(own[tensor])), 2 * self.random.randrange(1 << 15) + 1) for tensor in self.changing]
            swap(own, swaps, 0)
            self.arena.fill(slot, case.inputs)
            self.arena.poison(slot)
            self.enter()
            window = self.child.run(slot, calls, swaps)
            self.leave()
            for index in range(1, calls):
                swap(own, swaps, index)
            if swaps:
                self.trial.cases.renew(case)
            self.expect(case, slot)
            if (spent_s := self.cost(window) - self.overhead_s) > 0:
                return spent_s / calls * 1e6
        # Correct outputs for less than an empty command costs: the processor clock was read wrongly, as virtual machines sometimes do.
        return window.wall_s / calls * 1e6

    def expect(self, case: Case, slot: Slot) -> None:
        """Judges a timed output. The kernel was right when it was checked; what differs now is that it was called before."""
        try:
            self.trial.expect(case, slot)
        except CandidateError as error:
            hint = "this was a later call with other inputs, and the earlier ones were right: keep nothing between calls"
            raise CandidateError(error.reason, f"{error.detail}\n{hint}") from error

    def baseline_us(self, call: Callable[[], object], calls: int) -> float:
        """The same for code of ours, on the matching clock of this thread."""
        now = time.thread_time if self.by_cpu else time.perf_counter
        started = now()
        for _ in range(calls):
            call()
        return (now() - started) / calls * 1e6

    def cost(self, window: Window) -> float:
        return window.cpu_s if self.by_cpu and window.cpu_s is not None else window.wall_s

    def enough(self, samples: list[float], others: dict[str, list[float]], elapsed_s: float) -> bool:
        """Known to about a percent, or out of time."""
        if len(samples) < FEWEST:
            return False
        if len(samples) < PAIRS:
            return elapsed_s > 3 * BUDGET_S
        if elapsed_s > BUDGET_S or len(samples) >= MOST:
            return True
        reference = next(iter(others.values()), [1.0] * len(samples))
        ratios = tuple(a / b for a, b in zip(samples, reference))
        spread = (quantile(ratios, 0.75) - quantile(ratios, 0.25)) / 2 / quantile(ratios, 0.5)
        return spread * 1.6 / sqrt(len(ratios)) < PRECISION

    def enter(self) -> None:
        """Adds up what the child spent while it had nothing to do."""
        if self.left is not None and (cpu := self.child.cpu_s()) is not None:
            self.idle_wall_s += time.perf_counter() - self.left[0]
            self.idle_cpu_s += cpu - self.left[1]

    def leave(self) -> None:
        cpu = self.child.cpu_s()
        self.left = None if cpu is None else (time.perf_counter(), cpu)

    def check_idle(self) -> None:
        """Work outside the windows is work hidden from the clock."""
        if self.by_cpu and self.idle_cpu_s > IDLE_S and self.idle_cpu_s > IDLE_SHARE * self.idle_wall_s:
            raise CandidateError("forbidden", "the kernel keeps computing after it has returned: no helpers outside the call")


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
    samples = tuple(round(own_us * shake.uniform(0.99, 1.01), 3) for _ in range(PAIRS))
    others = {name: tuple(round(base_us * shake.uniform(0.99, 1.01), 3) for _ in range(PAIRS)) for name in job.baselines}
    return Timing(samples, others, "synthetic")
