"""Compiles translated bundles into Python functions: each executes one block of the schedule and returns the exit it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evokernel.backends.pallas.schedule.bundles import Program, ScheduleError
from evokernel.backends.pallas.schedule.machine import Machine
from evokernel.backends.pallas.schedule.scalar_translator import Branch, TranslatedBundle, predicate_expression, runtime_functions

UNKNOWN_TARGET = -1

Block = Callable[[Machine, list[object], list[object], dict[object, object]], int]


class BlockExit(NamedTuple):
    """One exit of a block: bundles `begin` to `end` have executed, and control continues at `target`."""

    begin: int
    end: int
    target: int
    """A bundle, the end of the program, or UNKNOWN_TARGET for a branch whose target the dump does not show."""


class ExecutableCode(NamedTuple):
    """A schedule as executable Python functions."""

    exits: list[BlockExit]
    blocks: dict[int, Block]
    """The function of each block, by its first bundle."""


def find_block_leaders(program: Program, steps: Sequence[TranslatedBundle], delay_slots: int) -> set[int]:
    """The first bundles of blocks: those that control can reach from elsewhere than the previous bundle."""
    result = {0}
    for at, step in enumerate(steps):
        if step.branch:
            result.add(min(at + delay_slots + 1, len(steps)))
            if step.branch.region in program.regions:
                result.add(program.regions[step.branch.region])
    return result


def compile_blocks(
    program: Program, steps: Sequence[TranslatedBundle], leaders: set[int], elapsed: Sequence[int], delay_slots: int
) -> ExecutableCode:
    """Compiles all reachable blocks. `elapsed[n]` is the time of the bundles before n if no bundle waits for a transfer."""
    writer = BlockWriter(program, steps, leaders, elapsed, delay_slots)
    source, pending, written_blocks = [], [0], set()
    while pending:
        begin = pending.pop()
        if begin in written_blocks or begin == len(steps) or begin == UNKNOWN_TARGET:
            continue
        written_blocks.add(begin)
        first = len(writer.exits)
        source.append(writer.write_block(begin))
        pending += [block_exit.target for block_exit in writer.exits[first:]]
    names = runtime_functions()
    try:
        exec(compile("\n".join(source), "<schedule>", "exec"), names)
    except (SyntaxError, RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise ScheduleError(f"the schedule cannot be translated: {error}") from error
    return ExecutableCode(writer.exits, {begin: names[f"block{begin}"] for begin in written_blocks})


class BlockWriter:
    """Writes the Python source of blocks. `m` is the machine; `r`, `p` and `s` are its registers, predicates and scalar memory."""

    def __init__(
        self, program: Program, steps: Sequence[TranslatedBundle], leaders: set[int], elapsed: Sequence[int], delay_slots: int
    ) -> None:
        self.program, self.steps, self.leaders, self.elapsed, self.delay_slots = program, steps, leaders, elapsed, delay_slots
        self.exits: list[BlockExit] = []

    def write_block(self, begin: int) -> str:
        """The source of one block: from its leader to the next leader that is reached outside the delay slots of a branch."""
        lines = [f"def block{begin}(m,r,p,s):"]
        delayed_branches: list[tuple[int, Branch]] = []
        at, clock = begin, self.elapsed[begin]
        while True:
            for branch_at, branch in [entry for entry in delayed_branches if min(entry[0] + self.delay_slots + 1, len(self.steps)) == at]:
                target = self.program.regions.get(branch.region, UNKNOWN_TARGET)
                lines.append(f" if b{branch_at}:")
                lines += [" " + line for line in self.write_exit(begin, at, target, clock)]
                delayed_branches.remove((branch_at, branch))
            if at == len(self.steps) or (at != begin and at in self.leaders and not delayed_branches):
                return "\n".join(lines + self.write_exit(begin, at, at, clock))
            step = self.steps[at]
            if step.branch:
                lines.append(f" b{at}={branch_expression(step.branch, [earlier for earlier, _ in delayed_branches])}")
                delayed_branches.append((at, step.branch))
            if step.needs_clock:
                issue_cycle = self.elapsed[at + 1] - 1
                lines.append(f" m.clock+={issue_cycle - clock}")
                clock = issue_cycle
            lines += [f" {line}" for line in (step.values, *step.effects, step.writes) if line]
            at += 1

    def write_exit(self, begin: int, end: int, target: int, clock: int) -> list[str]:
        self.exits.append(BlockExit(begin, end, target))
        return [f" m.clock+={self.elapsed[end] - clock}", f" return {len(self.exits) - 1}"]


def branch_expression(branch: Branch, earlier: list[int]) -> str:
    """Python expression for whether a branch is taken: its predicate holds, and no earlier branch is taken."""
    conditions = [f"not b{at}" for at in earlier]
    if branch.predicate:
        conditions.append(predicate_expression(branch.predicate))
    return " and ".join(conditions) or "True"
