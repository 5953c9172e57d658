"""Times one kernel in windows of calls on new inputs, verifies every output, and checks what its process does between windows."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.errors import CandidateError
from evokernel.core.statistics import quantile
from evokernel.verify.candidate_main import PERTURB, ROTATE, SWAP_PAIR, InputChange, apply_input_changes, view_bits
from evokernel.verify.cases import Case, Cases

if TYPE_CHECKING:
    from evokernel.verify.candidate_process import CommandTiming
    from evokernel.verify.shared_buffers import BufferSlot
    from evokernel.verify.trial import Trial

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
