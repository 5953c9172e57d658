"""Records what a program does on the simulated core, and replays it with other costs: work, latencies or bytes that are free.

Control flow does not depend on time, so one recorded run is enough for every replay.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.machine import LOCAL_SPEED, WORD_MASK, Machine, TooManyTransfers
from evokernel.backends.pallas.schedule.simulate import PreparedProgram

MAX_EVENTS = 60_000
MAX_STRETCHES = 300_000
READ, WRITE, LOCAL, WAIT, DELAY = range(5)

Stretch = tuple[int, int]
"""Consecutive cycles of the schedule: begin and end, counted as if no bundle waited for a transfer."""


class Event(NamedTuple):
    """A transfer, a wait or a delay, and the work before it."""

    gap: int
    """Index of the work since the previous event."""
    kind: int
    amount: float
    """Bytes of a transfer; cycles of a delay."""
    transfers: tuple[int, ...] = ()
    """The transfers that a wait needs, by their numbers."""


class Trace(NamedTuple):
    """One recorded run."""

    events: tuple[Event, ...]
    gaps: tuple[tuple[tuple[Stretch, int], ...], ...]
    """The work between events: stretches of the schedule and how often each ran."""
    last_gap: int
    cycles: float


class Costs(NamedTuple):
    """What a replay changes: the defaults change nothing."""

    bundle_factors: Sequence[float] | None = None
    """Factor of each bundle's time; None leaves all bundles as they are."""
    byte_factor: float = 1.0
    """Factor of the bytes of transfers from and to HBM."""
    latency_factor: float = 1.0
    """Factor of the fixed latency of transfers."""


UNCHANGED = Costs()


class TracingMachine(Machine):
    """A machine that records its events and the work between them."""

    def __init__(self, chip: Chip, core: int) -> None:
        super().__init__(chip, core=core)
        self.position = 0
        self.position_clock = 0.0
        self.events: list[Event] = []
        self.gap: dict[Stretch, int] = {}
        self.gaps: dict[tuple[tuple[Stretch, int], ...], int] = {}
        self.issued: dict[int, deque[int]] = defaultdict(deque)
        self.transfer_count = 0

    def begin_block(self, position: int) -> None:
        self.position, self.position_clock = position, self.clock

    def record_work(self) -> None:
        """Adds the cycles since the last recorded position to the current gap."""
        cycles = round(self.clock - self.position_clock)
        if cycles:
            stretch = (self.position, self.position + cycles)
            self.gap[stretch] = self.gap.get(stretch, 0) + 1
            self.position += cycles
        self.position_clock = self.clock

    def close_gap(self) -> int:
        """Ends the current gap and returns its index; equal gaps share an index."""
        self.record_work()
        number = self.gaps.setdefault(tuple(self.gap.items()), len(self.gaps))
        self.gap = {}
        if len(self.events) > MAX_EVENTS or len(self.gaps) > MAX_EVENTS:
            raise TooManyTransfers
        return number

    def transfer(self, source: str, target: str, granules: Any, flag: Any, smem: Any) -> None:
        gap = self.close_gap()
        size = float((int(granules) & WORD_MASK) * self.chip.granule_bytes)
        kind = READ if source == "hbm" else WRITE if target == "hbm" else LOCAL
        super().transfer(source, target, granules, flag, smem)
        self.events.append(Event(gap, kind, 2 * size if source == target == "hbm" else size))
        self.issued[int(flag)].append(self.transfer_count)
        self.transfer_count += 1

    def wait(self, number: Any, count: Any) -> None:
        gap, pending = self.close_gap(), self.get_flag(number).pending
        before = len(pending)
        super().wait(number, count)
        issued = self.issued[int(number)]
        self.events.append(Event(gap, WAIT, 0.0, tuple(issued.popleft() for _ in range(before - len(pending)))))
        self.position_clock = self.clock

    def delay(self, cycles: Any) -> None:
        gap, before = self.close_gap(), self.clock
        super().delay(cycles)
        self.events.append(Event(gap, DELAY, self.clock - before))
        self.position_clock = self.clock


def record_trace(prepared: PreparedProgram, chip: Chip, core: int = 0, limit_s: float = 1.0) -> Trace | None:
    """Records a run of the program on one core; None if it is too long to record."""
    machine = TracingMachine(chip, core)
    if not run_recorded(prepared, machine, time.thread_time() + limit_s):
        return None
    last_gap = machine.close_gap()
    return Trace(tuple(machine.events), tuple(machine.gaps), last_gap, machine.clock)


def run_recorded(prepared: PreparedProgram, machine: TracingMachine, deadline: float) -> bool:
    """Executes the program on a recording machine; False if it does not end within the limits."""
    exits, blocks = prepared.code
    starts = elapsed_cycles(prepared)
    begin, count = 0, 0
    try:
        while begin in blocks:
            machine.begin_block(starts[begin])
            block_exit = exits[blocks[begin](machine, machine.registers, machine.predicates, machine.smem)]
            machine.record_work()
            begin = block_exit.target
            count += 1
            if count > MAX_STRETCHES or (not count & 0xFF and time.thread_time() > deadline):
                return False
    except TooManyTransfers:
        return False
    return True


def elapsed_cycles(prepared: PreparedProgram) -> list[int]:
    """The cycle in which each bundle begins if none waits for a transfer, and the end of the last one."""
    return list(accumulate((1 + stall for stall in prepared.stalls), initial=0))


def replay_trace(trace: Trace, prepared: PreparedProgram, chip: Chip, costs: Costs = UNCHANGED) -> float:
    """The cycles that the recorded run takes with these costs."""
    gaps = gap_cycles(trace, prepared, costs.bundle_factors)
    per_byte = costs.byte_factor / chip.hbm_bytes_per_cycle
    read_latency, write_latency = chip.read_latency * costs.latency_factor, chip.write_latency * costs.latency_factor
    clock = free_at = 0.0
    completed: list[float] = []
    for gap, kind, amount, transfers in trace.events:
        clock += gaps[gap]
        if kind == WAIT:
            for number in transfers:
                if completed[number] > clock:
                    clock = completed[number]
        elif kind == DELAY:
            clock += amount
        elif kind == LOCAL:
            completed.append(clock + amount / (LOCAL_SPEED * chip.hbm_bytes_per_cycle) + write_latency / 2)
        else:
            free_at = max(clock, free_at) + amount * per_byte
            completed.append(free_at + (read_latency if kind == READ else write_latency))
    return clock + gaps[trace.last_gap]


def gap_cycles(trace: Trace, prepared: PreparedProgram, factors: Sequence[float] | None) -> list[float]:
    """The cycles of every gap, with each bundle's time multiplied by its factor."""
    if factors is None:
        return [float(sum((end - begin) * times for (begin, end), times in gap)) for gap in trace.gaps]
    elapsed = elapsed_cycles(prepared)
    changed = list(accumulate((factor * (end - begin) for factor, begin, end in zip(factors, elapsed, elapsed[1:])), initial=0.0))

    def position(cycle: int) -> float:
        at = min(bisect_right(elapsed, cycle) - 1, len(factors) - 1)
        return changed[at] + factors[at] * (cycle - elapsed[at])

    return [sum((position(end) - position(begin)) * times for (begin, end), times in gap) for gap in trace.gaps]


def channel_cycles(trace: Trace, chip: Chip) -> tuple[float, float]:
    """The cycles for which reads and writes occupy the channel to HBM."""
    reads, writes = (sum(event.amount for event in trace.events if event.kind == kind) for kind in (READ, WRITE))
    return reads / chip.hbm_bytes_per_cycle, writes / chip.hbm_bytes_per_cycle


def work_cycles(trace: Trace, prepared: PreparedProgram, factors: Sequence[float] | None = None) -> float:
    """The cycles of all bundles that the run executed, without waits."""
    durations = gap_cycles(trace, prepared, factors)
    return sum(durations[event.gap] + (event.amount if event.kind == DELAY else 0.0) for event in trace.events) + durations[trace.last_gap]
