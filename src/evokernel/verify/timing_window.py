"""One kernel under the judge's clock: windows of calls on new inputs, every output judged, and what its process does in between."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.errors import CandidateError
from evokernel.core.statistics import quantile
from evokernel.verify.candidate_main import MOVED, OTHER, PAIR, Change, bits_of, change
from evokernel.verify.cases import Case, Cases

if TYPE_CHECKING:
    from evokernel.verify.candidate_process import Window
    from evokernel.verify.shared_buffers import BufferSlot
    from evokernel.verify.trial import Trial

READINGS = 3
EMPTY_RUNS, MOST_OVERHEAD_S = 15, 0.0002
"""How often it is tried what an empty command costs, and what is believed of it at most: it is the child that takes the time."""
IDLE_SHARE, IDLE_S = 0.03, 0.002
THREAD_SHARE, THREAD_S = 1.05, 0.002
"""One thread cannot be charged more processor time than passes; a little is left for the reading of clocks."""
AGREED, SLACK_S, TICK_S = 0.5, 0.0005, 0.01
"""Clocks of judge and child that differ by half, and by more than a command takes, do not tell of the same work; a process sees its own
processor time move in ticks."""
KEEP_NOTHING = "this was a later call with other inputs, and the earlier ones were right: keep nothing between calls"


class Changes(NamedTuple):
    """What may be done to the inputs of a task between two calls."""

    tensors: list[int]
    """Whose elements may change places at all."""
    how: str
    """The most that may be done at once: not all may move where the operator is made for a certain order, such as matrices to be inverted,
    and not all become other numbers where they stand for something, such as labels or what is left out."""
    cost_s: float = 0.0
    """What that takes longer than two elements of each, measured where no candidate is."""


class TimedKernel:
    """A kernel in its process, taken in turn with others. `trial` has its child and memory; cases are those that all sides share."""

    def __init__(self, trial: Trial, cases: Cases, random: Random) -> None:
        assert trial.child is not None
        assert trial.arena is not None
        self.trial, self.child, self.arena = trial, trial.child, trial.arena
        self.cases, self.random = cases, random
        self.by_cpu = trial.threads == 1 and self.child.cpu_s() is not None
        self.changing: list[int] = []
        self.how = PAIR
        """What happens to inputs between calls."""
        self.overhead_s = self.change_s = 0.0
        """What a command costs without any call, and what changing all of an input costs more than changing two elements."""
        self.idle_wall_s = self.idle_cpu_s = self.wall_s = self.cpu_s = 0.0
        self.left: tuple[float, float] | None = None
        self.told: list[float] = []
        """The wall time the child says went by, as a share of the processor time the judge saw it spend, for every window: where only the
        long ones counted, they would be those that were read wrongly."""

    def warm_up(self, case: Case, changes: Changes) -> None:
        """Equal contents in another place must give equal bits, and other contents in the same place, over a result that is there already,
        those of the reference. Then: what a command costs by itself, and whether inputs can be changed as a whole between calls."""
        for which in (0, 1):
            slot = self.trial.slot(case, which)
            self.arena.fill(slot, case.inputs)
            self.arena.poison(slot)
            self.child.run(slot)
            self.expect(case, slot)
        spent = quantile([self.cost(self.child.run(slot, 0)) for _ in range(EMPTY_RUNS)], 0.25)
        self.overhead_s = min(spent, MOST_OVERHEAD_S)
        self.changing = changes.tensors
        call_us = self.sample_us(case, 2)
        if changes.how != PAIR and changes.cost_s * 1e6 < call_us:  # what is quicker than that gains nothing by looking for what it knows
            self.how, self.change_s = changes.how, changes.cost_s

    def changes(self) -> list[Change]:
        """A new series of changes, one for each tensor that may change."""
        return [(tensor, self.random.randrange(1 << 20), 2 * self.random.randrange(1 << 15) + 1, self.how) for tensor in self.changing]

    def sample_us(self, case: Case, calls: int) -> float:
        """One window, in which no call has the inputs of any other; its last outputs are judged like any others.

        Place and contents change independently: whoever remembers by address meets other contents there, and the reverse.
        """
        own = [bits_of(array.data) for array in case.inputs]
        for _ in range(READINGS):
            slot = self.trial.slot(case, self.random.randrange(2))
            for tensor in self.changing if self.how in (MOVED, OTHER) else ():
                data = case.inputs[tensor].data
                data[...] = np.roll(data.reshape(-1), self.random.randrange(data.size)).reshape(data.shape)
            changes = self.changes()
            change(own, changes, 0)
            self.arena.fill(slot, case.inputs)
            self.arena.poison(slot)
            self.enter()
            window = self.child.run(slot, calls, changes)
            self.leave()
            for index in range(1, calls):
                change(own, changes, index)
            if changes:
                self.cases.renew(case)
            self.expect(case, slot)
            spent_s = self.cost(window) - self.overhead_s - (calls - 1) * self.change_s
            if spent_s > 0 and not self.is_misread(window):
                self.note(window)
                return spent_s / calls * 1e6
        # Correct outputs for less than an empty command costs, or for less than the child says: the processor clock was read wrongly, as
        # virtual machines sometimes do. Wall time is never less than the truth, so a child that lies about its clock only harms itself.
        return window.wall_s / calls * 1e6

    def is_misread(self, window: Window) -> bool:
        """Whether the judge's clock shows much less than the child's own."""
        cpu_s, wall_s = window.told
        return (self.by_cpu and self.cost(window) < AGREED * cpu_s - TICK_S) or window.wall_s < AGREED * wall_s - SLACK_S

    def note(self, window: Window) -> None:
        """Adds a window to what `check` looks at."""
        self.wall_s += window.wall_s
        self.cpu_s += window.cpu_s or 0.0
        seen_s = min(self.cost(window), window.wall_s)  # more processor time than went by was not spent: it was read wrongly
        self.told.append((window.told[1] + SLACK_S) / seen_s if seen_s > 2 * SLACK_S else 1.0)

    def expect(self, case: Case, slot: BufferSlot) -> None:
        """Judges a timed output. The kernel was right when it was checked; what differs now is that it was called before."""
        try:
            self.trial.expect(case, slot)
        except CandidateError as error:
            raise CandidateError(error.reason, f"{error.detail}\n{KEEP_NOTHING}") from error

    def cost(self, window: Window) -> float:
        return window.cpu_s if self.by_cpu and window.cpu_s is not None else window.wall_s

    def enter(self) -> None:
        """Adds up what the child spent while it had nothing to do."""
        if self.left is not None and (cpu := self.child.cpu_s()) is not None:
            self.idle_wall_s += time.perf_counter() - self.left[0]
            self.idle_cpu_s += cpu - self.left[1]

    def leave(self) -> None:
        cpu = self.child.cpu_s()
        self.left = None if cpu is None else (time.perf_counter(), cpu)

    def check(self) -> None:
        """Work outside the windows, or beside the one thread, is work hidden from the clock; so is a clock that was tampered with."""
        if not self.by_cpu:
            return
        if self.idle_cpu_s > IDLE_S and self.idle_cpu_s > IDLE_SHARE * self.idle_wall_s:
            raise CandidateError("forbidden", "the kernel keeps computing after it has returned: no helpers outside the call")
        if self.cpu_s > THREAD_SHARE * self.wall_s + THREAD_S:
            busy = self.cpu_s / self.wall_s
            raise CandidateError("forbidden", f"the kernel keeps {busy:.2f} processors busy where one thread is allowed")
        if self.told and quantile(self.told, 0.5) < AGREED:
            raise CandidateError("forbidden", "clocks in the kernel's process do not show the time it takes: leave them alone")


class Incumbent(TimedKernel):
    """The best kernel so far, on the candidate's tensors; judged by the reference alone: cases keep what the candidate made of them."""

    def warm_up(self, case: Case, changes: Changes) -> None:
        for slot in self.arena.slots:  # all, since a child counts them; only those of the timed size are ever run
            self.child.bind(slot, case.scalars)
        super().warm_up(case, changes)

    def expect(self, case: Case, slot: BufferSlot) -> None:
        kept = case.results
        case.results = []
        try:
            self.trial.expect(case, slot)
        finally:
            case.results = kept
