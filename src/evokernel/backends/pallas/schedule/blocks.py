"""Joins translated bundles into functions: one call executes a stretch of the schedule and says where control goes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evokernel.backends.pallas.schedule.bundles import Program, ScheduleError
from evokernel.backends.pallas.schedule.machine import Machine
from evokernel.backends.pallas.schedule.scalar import Branch, Step, condition, functions

NOWHERE = -1

Block = Callable[[Machine, list[object], list[object], dict[object, object]], int]


class Exit(NamedTuple):
    """A way out of a block: bundles `begin` to `end` have been executed, control goes on at `target`."""

    begin: int
    end: int
    target: int
    """The end of the program, or NOWHERE for a branch whose target the dump does not show."""


class Code(NamedTuple):
    """The executable program."""

    exits: list[Exit]
    blocks: dict[int, Block]
    """By the bundle they begin with."""


def leaders(program: Program, steps: Sequence[Step], delay_slots: int) -> set[int]:
    """Bundles control can come to other than from the one before."""
    found = {0}
    for at, step in enumerate(steps):
        if step.branch:
            found.add(min(at + delay_slots + 1, len(steps)))
            if step.branch.region in program.regions:
                found.add(program.regions[step.branch.region])
    return found


def assemble(program: Program, steps: Sequence[Step], entered: set[int], spent: Sequence[int], delay_slots: int) -> Code:
    """`spent[n]` is the time the bundles before n take when nothing waits for a transfer."""
    writer = Writer(program, steps, entered, spent, delay_slots)
    source, wanted, written = [], [0], set()
    while wanted:
        begin = wanted.pop()
        if begin in written or begin == len(steps) or begin == NOWHERE:
            continue
        written.add(begin)
        first = len(writer.exits)
        source.append(writer.block(begin))
        wanted += [way.target for way in writer.exits[first:]]
    names = functions()
    try:
        exec(compile("\n".join(source), "<schedule>", "exec"), names)
    except (SyntaxError, RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise ScheduleError(f"the schedule cannot be translated: {error}") from error
    return Code(writer.exits, {begin: names[f"block{begin}"] for begin in written})


class Writer:
    """Writes the functions. `m` is the machine, `r`, `p` and `s` are its registers, predicates and scalar memory."""

    def __init__(self, program: Program, steps: Sequence[Step], entered: set[int], spent: Sequence[int], delay_slots: int) -> None:
        self.program, self.steps, self.entered, self.spent, self.delay_slots = program, steps, entered, spent, delay_slots
        self.exits: list[Exit] = []

    def block(self, begin: int) -> str:
        """From one leader to the next that is reached while no branch is on its way."""
        lines = [f"def block{begin}(m,r,p,s):"]
        on_the_way: list[tuple[int, Branch]] = []
        at, clock = begin, self.spent[begin]
        while True:
            for branched, branch in [entry for entry in on_the_way if min(entry[0] + self.delay_slots + 1, len(self.steps)) == at]:
                target = self.program.regions.get(branch.region, NOWHERE)
                lines.append(f" if b{branched}:")
                lines += [" " + line for line in self.leave(begin, at, target, clock)]
                on_the_way.remove((branched, branch))
            if at == len(self.steps) or (at != begin and at in self.entered and not on_the_way):
                return "\n".join(lines + self.leave(begin, at, at, clock))
            step = self.steps[at]
            if step.branch:
                lines.append(f" b{at}={taken(step.branch, [earlier for earlier, _ in on_the_way])}")
                on_the_way.append((at, step.branch))
            if step.timed:
                issued = self.spent[at + 1] - 1
                lines.append(f" m.t+={issued - clock}")
                clock = issued
            lines += [f" {line}" for line in (step.values, *step.effects, step.writes) if line]
            at += 1

    def leave(self, begin: int, end: int, target: int, clock: int) -> list[str]:
        self.exits.append(Exit(begin, end, target))
        return [f" m.t+={self.spent[end] - clock}", f" return {len(self.exits) - 1}"]


def taken(branch: Branch, earlier: list[int]) -> str:
    """Not when a branch before it already is."""
    free = [f"not b{at}" for at in earlier]
    return " and ".join([*free, condition(branch.predicate)] if branch.predicate else free) or "True"
