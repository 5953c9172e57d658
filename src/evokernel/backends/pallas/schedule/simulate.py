"""Executes the schedule of one operation, so that trip counts and skipped or overlapping transfers are those of the chip."""

from __future__ import annotations

import time
from typing import NamedTuple

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.blocks import UNKNOWN_TARGET, Block, ExecutableCode, compile_blocks, find_block_leaders
from evokernel.backends.pallas.schedule.bundles import Program
from evokernel.backends.pallas.schedule.machine import WORD_MASK, Machine, TooManyTransfers
from evokernel.backends.pallas.schedule.scalar_translator import ScalarTranslator
from evokernel.backends.pallas.schedule.stalls import compute_stalls
from evokernel.backends.pallas.schedule.steady_loop import skip_steady_iterations

MAX_BLOCKS = 500_000_000
"""Executed and skipped ones: some minutes on a chip."""
MIN_PAUSE, MAX_PAUSE = 32, 4096
"""Blocks that are executed before the next search for a steady state: more after each search in vain."""
GUESSES = (0, 1 << 30, WORD_MASK - (1 << 30))
"""Values that replace unknown words: zero, a large number, a negative number."""
DECIDED_BY_DATA = "decided by data"
OUT_OF_TIME = "the simulation exceeded its time limit"


class PreparedProgram(NamedTuple):
    """A translated program, which can be executed repeatedly."""

    program: Program
    code: ExecutableCode
    stalls: list[int]
    unknown_operations: dict[str, int]


class Execution(NamedTuple):
    """The result of executing a program once."""

    cycles: float
    wait_cycles: float
    """Cycles spent waiting for transfers."""
    bytes_read: int
    bytes_written: int
    bytes_local: int
    transfers: int
    bundle_counts: list[int]
    """How often each bundle executed."""
    background_bytes_left: float
    unwaited_transfers: int
    doubts: tuple[str, ...]
    """Reasons why the figures may be wrong."""
    remarks: tuple[str, ...] = ()
    """Assumptions of the simulation."""


def translate_program(program: Program, chip: Chip, careful: bool = False) -> PreparedProgram:
    """Translates a program into executable code."""
    translator = ScalarTranslator(careful)
    steps = [translator.translate_bundle(bundle.scalar_ops) for bundle in program.bundles]
    leaders = find_block_leaders(program, steps, chip.delay_slots)
    waits = compute_stalls(program.bundles, leaders, chip)
    elapsed = [0]
    for wait in waits:
        elapsed.append(elapsed[-1] + 1 + wait)
    code = compile_blocks(program, steps, leaders, elapsed, chip.delay_slots)
    return PreparedProgram(program, code, waits, dict(translator.unknown_operations))


def execute_program(prepared: PreparedProgram, chip: Chip, deadline: float, background: float = 0.0) -> Execution:
    """Executes a program on the slowest core of the device; if control flow depends on data, with the slowest of several guesses."""
    results = execute_on_all_cores(prepared, chip, deadline, background)
    if depends_on_data(results):
        prepared = translate_program(prepared.program, chip, careful=True)
        results = execute_on_all_cores(prepared, chip, deadline, background)
    if depends_on_data(results):
        results += [execute_once(prepared, chip, deadline, background, guess) for guess in GUESSES[1:]]
    return max(results, key=lambda result: result.cycles)


def extrapolate_copy(execution: Execution, result_bytes: float) -> Execution:
    """The execution of one of XLA's copies that ended at the time limit, continued at the same rate until its result is written. XLA's
    copies do not depend on data."""
    if OUT_OF_TIME not in execution.doubts or not 0 < execution.bytes_written < result_bytes:
        return execution
    factor = result_bytes / execution.bytes_written
    return execution._replace(
        cycles=execution.cycles * factor,
        wait_cycles=execution.wait_cycles * factor,
        bytes_read=round(execution.bytes_read * factor),
        bytes_written=round(result_bytes),
        bytes_local=round(execution.bytes_local * factor),
        transfers=round(execution.transfers * factor),
        bundle_counts=[round(count * factor) for count in execution.bundle_counts],
        doubts=tuple(doubt for doubt in execution.doubts if doubt != OUT_OF_TIME and DECIDED_BY_DATA not in doubt),
        remarks=(*execution.remarks, f"extrapolated from {1 / factor:.2g} of its bytes"),
    )


def execute_on_all_cores(prepared: PreparedProgram, chip: Chip, deadline: float, background: float) -> list[Execution]:
    return [execute_once(prepared, chip, deadline, background, 0, core) for core in range(chip.cores)]


def depends_on_data(results: list[Execution]) -> bool:
    return any(DECIDED_BY_DATA in doubt for result in results for doubt in result.doubts)


def execute_once(prepared: PreparedProgram, chip: Chip, deadline: float, background: float, guess: int, core: int = 0) -> Execution:
    machine = Machine(chip, background, guess, core)
    hits, stop_reason = run_blocks(prepared, machine, deadline)
    doubts = [stop_reason] if stop_reason else []
    machine.drain_background(machine.clock)
    size = len(prepared.program.bundles)
    change = [0] * (size + 1)
    for block_exit, times in zip(prepared.code.exits, hits):
        change[block_exit.begin] += times
        change[block_exit.end] -= times
    counts, count = [], 0
    for at in range(size):
        count += change[at]
        counts.append(count)
    if machine.data_decisions:
        doubts.append(f"control flow is {DECIDED_BY_DATA} whose values the estimate does not know")
    if machine.unmatched_waits:
        doubts.append(f"waits without a matching transfer: {machine.unmatched_waits}")
    if prepared.unknown_operations:
        doubts.append("unknown operations in the schedule: " + ", ".join(sorted(prepared.unknown_operations)))
    return Execution(
        cycles=machine.clock,
        wait_cycles=machine.wait_cycles,
        bytes_read=machine.bytes_read,
        bytes_written=machine.bytes_written,
        bytes_local=machine.bytes_local,
        transfers=machine.transfers,
        bundle_counts=counts,
        background_bytes_left=machine.background_bytes,
        unwaited_transfers=0 if stop_reason else machine.unwaited_transfers,
        doubts=tuple(doubts),
        remarks=("assumes that all block indices read from memory differ",) if machine.index_comparisons else (),
    )


class BlockRunner:
    """Executes the blocks of a program."""

    def __init__(self, prepared: PreparedProgram, machine: Machine) -> None:
        self.exits, blocks = prepared.code
        self.machine = machine
        self.hits = [0] * len(self.exits)
        self.successors = [blocks.get(block_exit.target) for block_exit in self.exits]
        self.block: Block | None = blocks[0]
        self.last_exit = 0

    def step(self) -> int:
        """Execute one block, and return the exit that it took."""
        machine = self.machine
        assert self.block is not None
        self.last_exit = exit_index = self.block(machine, machine.registers, machine.predicates, machine.smem)
        self.hits[exit_index] += 1
        self.block = self.successors[exit_index]
        return exit_index

    def run(self, count: int) -> None:
        """Execute a number of blocks, or up to the end of the program."""
        machine, hits, successors, block = self.machine, self.hits, self.successors, self.block
        registers, predicates, smem = machine.registers, machine.predicates, machine.smem
        for _ in range(count):
            assert block is not None
            exit_index = block(machine, registers, predicates, smem)
            hits[exit_index] += 1
            block = successors[exit_index]
            if block is None:
                self.last_exit = exit_index
                break
        self.block = block


def run_blocks(prepared: PreparedProgram, machine: Machine, deadline: float) -> tuple[list[int], str]:
    """Executes blocks until the program ends. Returns how often each exit was taken, and the reason if the execution stopped early."""
    runner, steps, pause = BlockRunner(prepared, machine), 0, MIN_PAUSE
    try:
        while steps <= MAX_BLOCKS and time.thread_time() <= deadline:
            runner.run(pause)
            steps += pause
            if runner.block is not None:
                skipped = skip_steady_iterations(runner)
                steps += skipped
                pause = MIN_PAUSE if skipped > MIN_PAUSE else min(2 * pause, MAX_PAUSE)
            if runner.block is None:
                is_missing = runner.exits[runner.last_exit].target == UNKNOWN_TARGET
                return runner.hits, "a branch leads to a region that is missing in the dump" if is_missing else ""
    except TooManyTransfers:
        return runner.hits, "the program has too many transfers in flight"
    return runner.hits, OUT_OF_TIME
