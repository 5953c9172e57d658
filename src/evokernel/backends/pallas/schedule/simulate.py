"""Executes the schedule of one operation: trip counts, skipped and overlapping transfers come out as they would on the chip."""

from __future__ import annotations

import time
from typing import NamedTuple

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.blocks import NOWHERE, Code, assemble, leaders
from evokernel.backends.pallas.schedule.bundles import Program
from evokernel.backends.pallas.schedule.machine import WORD, Machine, OutOfBounds
from evokernel.backends.pallas.schedule.scalar import Translator
from evokernel.backends.pallas.schedule.stalls import stalls

MAX_BLOCKS = 20_000_000
CHECK_EVERY = 0x3FF
GUESSES = (0, 1 << 30, WORD - (1 << 30))
"""What an unknown word is taken for: nothing, something large, something negative."""
DATA = "decided by data"


class Prepared(NamedTuple):
    """A program that can be executed again and again."""

    program: Program
    code: Code
    stalls: list[int]
    not_understood: dict[str, int]


class Executed(NamedTuple):
    """One execution."""

    cycles: float
    waited: float
    """Cycles of it spent waiting for transfers."""
    bytes_read: int
    bytes_written: int
    bytes_local: int
    transfers: int
    counts: list[int]
    """How often each bundle was executed."""
    background_left: float
    unwaited: int
    doubts: tuple[str, ...]
    """Why the figures may be wrong."""
    remarks: tuple[str, ...] = ()
    """What was assumed."""


def prepare(program: Program, chip: Chip, careful: bool = False) -> Prepared:
    """Translates it once."""
    translator = Translator(careful)
    steps = [translator.step(bundle.scalar) for bundle in program.bundles]
    entered = leaders(program, steps, chip.delay_slots)
    waits = stalls(program.bundles, entered, chip)
    spent = [0]
    for wait in waits:
        spent.append(spent[-1] + 1 + wait)
    return Prepared(program, assemble(program, steps, entered, spent, chip.delay_slots), waits, dict(translator.not_understood))


def execute(prepared: Prepared, chip: Chip, deadline: float, background: float = 0.0) -> Executed:
    """On the slowest core of the device; where data decides, with the slowest of several guesses."""
    results = on_all_cores(prepared, chip, deadline, background)
    if in_doubt(results):
        prepared = prepare(prepared.program, chip, careful=True)
        results = on_all_cores(prepared, chip, deadline, background)
    if in_doubt(results):
        results += [execute_once(prepared, chip, deadline, background, guess) for guess in GUESSES[1:]]
    return max(results, key=lambda result: result.cycles)


def on_all_cores(prepared: Prepared, chip: Chip, deadline: float, background: float) -> list[Executed]:
    return [execute_once(prepared, chip, deadline, background, 0, core) for core in range(chip.cores)]


def in_doubt(results: list[Executed]) -> bool:
    return any(DATA in doubt for result in results for doubt in result.doubts)


def execute_once(prepared: Prepared, chip: Chip, deadline: float, background: float, guess: int, core: int = 0) -> Executed:
    machine = Machine(chip, background, guess, core)
    hits, stopped = walk(prepared, machine, deadline)
    doubts = [stopped] if stopped else []
    machine.drain(machine.t)
    size = len(prepared.program.bundles)
    change = [0] * (size + 1)
    for way, times in zip(prepared.code.exits, hits):
        change[way.begin] += times
        change[way.end] -= times
    counts, count = [], 0
    for at in range(size):
        count += change[at]
        counts.append(count)
    if machine.decided_by_data:
        doubts.append(f"control flow is {DATA} that is not known here")
    if machine.lone_waits:
        doubts.append(f"{machine.lone_waits} waits without a matching transfer")
    if prepared.not_understood:
        doubts.append("operations that are not understood: " + ", ".join(sorted(prepared.not_understood)))
    return Executed(
        cycles=machine.t,
        waited=machine.waited,
        bytes_read=machine.bytes_read,
        bytes_written=machine.bytes_written,
        bytes_local=machine.bytes_local,
        transfers=machine.transfers,
        counts=counts,
        background_left=machine.background,
        unwaited=0 if stopped else machine.unwaited,
        doubts=tuple(doubts),
        remarks=("block indices read from memory are taken to be all different",) if machine.indices_compared else (),
    )


def walk(prepared: Prepared, machine: Machine, deadline: float) -> tuple[list[int], str]:
    """How often each exit was taken, and why the walk ended early if it did."""
    exits, blocks = prepared.code
    hits = [0] * len(exits)
    following = [blocks.get(way.target) for way in exits]
    block, steps = blocks[0], 0
    registers, predicates, smem = machine.registers, machine.predicates, machine.smem
    try:
        while True:
            taken = block(machine, registers, predicates, smem)
            hits[taken] += 1
            successor = following[taken]
            if successor is None:
                return hits, "a branch leads to a region that was not dumped" if exits[taken].target == NOWHERE else ""
            block = successor
            steps += 1
            if not steps & CHECK_EVERY and (steps > MAX_BLOCKS or time.thread_time() > deadline):
                return hits, "it ran past the limit of time"
    except OutOfBounds:
        return hits, "it keeps too many transfers in flight"
