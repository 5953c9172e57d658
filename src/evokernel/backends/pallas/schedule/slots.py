"""Reads from a dumped schedule what each operation needs: its unit, its source line, and the results it waits for.

The operations between two synchronisation points form a region. A region takes at least as long as its busiest unit and as its longest
chain of dependent operations. Without a unit, a line or the spills, that bound shrinks, and the region's time with it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.bundles import HEAD, Program
from evokernel.backends.pallas.schedule.simulate import PreparedProgram
from evokernel.backends.pallas.schedule.stalls import LANES, SHARED, matmul_cycles, unit_name
from evokernel.backends.pallas.schedule.trace import elapsed_cycles
from evokernel.backends.pallas.schedule.unit_usage import MXUS

VALUE = re.compile(r"%[a-z]*(\d+)")
OPERATION = re.compile(r"(?:%[a-z]*(\d+)(?:_\w+)? = )?([A-Za-z][\w.\-]*)")
LINE = re.compile(r'loc\("[^"\n]*":(\d{1,7}):')
SPILL = "_spill]"
SYNCHRONISING = ("dma.", "vdelay", "sdelay", "sbr")
CAPACITY_NAMES = {"vpu": "VALU", "eup": "EUP", "load": "VLOAD", "store": "VSTORE", "scalar": "SALU"}
STEP_UNITS = ("scalar", "control")
"""Units that work on addresses, loops and transfers, not on the data of a block."""
DEFAULT_CAPACITY = {"vpu": 4, "eup": 1, "load": 3, "store": 1, "scalar": 2}
"""Used if the compiler dumped no table of slots."""


class Slot(NamedTuple):
    """One operation of a bundle."""

    unit: str
    """mxu, xlu, vpu, eup, load, store, scalar or control (transfers, synchronisation flags)."""
    name: str
    result: str
    """Number of its result value; empty if it has none."""
    operands: tuple[str, ...]
    line: int
    """Line of the candidate's source; 0 if the compiler does not say."""
    is_spill: bool


class Region(NamedTuple):
    """Bundles `begin` to `end`, between two synchronisation points, and their operations with their cycles."""

    begin: int
    end: int
    slots: tuple[tuple[int, Slot], ...]
    """The cycle of each operation, counted from the beginning of the region, and the operation."""


def parse_slots(text: str) -> list[list[Slot]]:
    """The operations of every bundle of a dumped schedule."""
    heads = list(HEAD.finditer(text))
    bundles: list[list[Slot]] = []
    for at, head in enumerate(heads):
        body = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)].rpartition("}")[0]
        bundles.append([slot for part in body.split(" ;; ") if (slot := parse_slot(part.strip())) is not None])
    popped = {slot.operands[0] for bundle in bundles for slot in bundle if slot.name.startswith("vpop.e") and slot.operands}
    return [[slot._replace(unit="eup") if slot.result in popped else slot for slot in bundle] for bundle in bundles]


def parse_slot(text: str) -> Slot | None:
    match = OPERATION.match(text)
    if not match or match[2].startswith(("sphi", "inlined_call", "int_to_ptr")):
        return None
    code = text[match.end() :]
    line = LINE.search(code)
    operands = tuple(VALUE.findall(code))
    return Slot(classify_unit(match[2]), match[2], match[1] or "", operands, int(line[1]) if line else 0, SPILL in code)


def classify_unit(name: str) -> str:
    """The unit that executes an operation; functions that the EUP computes are recognised by their results."""
    if name.startswith(("vsync", "vdelay", "vtrace", "vwait", "dma")):
        return "control"
    if not name.startswith("v"):
        return "scalar"
    if name.startswith(("vmat", "vpop.f32.mr", "vpop.s32.mr", "vdwg")):
        return "mxu"
    if LANES.match(name) or name.startswith(("vpop.xlane", "vpop.permute", "vpop.trf", "vxpose", "vsetperm")):
        return "xlu"
    if name.startswith("vpop.e"):
        return "eup"
    return "load" if name.startswith("vld") else "store" if name.startswith("vst") and not name.startswith("vstv") else "vpu"


def find_regions(prepared: PreparedProgram, slots: Sequence[Sequence[Slot]], counts: Sequence[int]) -> list[Region]:
    """The regions that executed: they end where control may join, and at transfers, waits and branches."""
    elapsed = elapsed_cycles(prepared)
    cuts = {0, len(slots), *prepared.program.regions.values(), *prepared.code.blocks}
    for at, bundle in enumerate(slots):
        if any(slot.name.startswith(SYNCHRONISING) for slot in bundle):
            cuts |= {at, at + 1}
    cuts |= {exit_.end for exit_ in prepared.code.exits}
    regions = []
    for begin, end in pairwise(sorted(cut for cut in cuts if cut <= len(slots))):
        if counts[begin]:
            inside = tuple((elapsed[at + 1] - 1 - elapsed[begin], slot) for at in range(begin, end) for slot in slots[at])
            regions.append(Region(begin, end, inside))
    return regions


class RegionBounds:
    """Lower bounds of the regions of one program, with all operations or without some of them."""

    def __init__(self, program: Program, regions: Sequence[Region], chip: Chip) -> None:
        self.regions, self.chip = regions, chip
        table = dict(zip(program.usage.units, program.usage.capacity)) if program.usage else {}
        self.capacity = {unit: max(1, table.get(name, DEFAULT_CAPACITY[unit])) for unit, name in CAPACITY_NAMES.items()}
        self.latencies = observe_latencies(regions)
        self.full = [self.bound_region(region, lambda slot: False) for region in regions]

    def bound_region(self, region: Region, is_free: Callable[[Slot], bool], chains: bool = True) -> float:
        """The cycles that the region takes at least, without the free operations; without `chains`, as if no operation waited."""
        slots = [slot for _, slot in region.slots if not is_free(slot)]
        bound = self.busiest_cycles(slots)
        return max(bound, self.chain_cycles(region, is_free)) if chains else bound

    def busiest_cycles(self, slots: Sequence[Slot]) -> float:
        """The cycles for which the busiest unit works."""
        counts = Counter(slot.unit for slot in slots)
        bound = max((counts[unit] / capacity for unit, capacity in self.capacity.items()), default=0.0)
        queues: Counter[str] = Counter()
        for slot in slots:
            if slot.name.startswith("vmatmul"):
                queues[unit_name(slot.name, SHARED)] += matmul_cycles(slot.name, self.chip)
            elif LANES.match(slot.name):
                queues[unit_name(slot.name, "xlu0")] += self.chip.xlu
        queues[SHARED] //= MXUS
        return max(bound, *queues.values())

    def chain_cycles(self, region: Region, is_free: Callable[[Slot], bool]) -> float:
        """The length of the longest chain of dependent operations; a free operation passes its operands on at once."""
        ready: dict[str, float] = {}
        longest = 0.0
        latencies = self.latencies
        for _, slot in region.slots:
            start = 0.0
            for operand in slot.operands:
                available = ready.get(operand, 0.0)
                if available > start:
                    start = available
            if is_free(slot):
                end = start
            else:
                end = start + latencies.get(slot.name, 1)
                longest = max(longest, start + 1)
            if slot.result:
                ready[slot.result] = end
        return longest

    def factors(self, bundles: int, is_free: Callable[[Slot], bool], chains: bool = True) -> list[float]:
        """The factor of every bundle's time without the free operations; 1 where nothing changes."""
        factors = [1.0] * bundles
        for region, full in zip(self.regions, self.full):
            if full and (not chains or any(is_free(slot) for _, slot in region.slots)):
                factor = min(1.0, self.bound_region(region, is_free, chains) / full)
                factors[region.begin : region.end] = [factor] * (region.end - region.begin)
        return factors


def observe_latencies(regions: Sequence[Region]) -> dict[str, int]:
    """The smallest distance between each kind of operation and the first use of its result, in cycles."""
    latencies: dict[str, int] = {}
    for region in regions:
        issued: dict[str, tuple[int, str]] = {}
        for at, slot in region.slots:
            for operand in slot.operands:
                if operand in issued:
                    before, name = issued[operand]
                    latencies[name] = min(latencies.get(name, at - before), at - before)
            if slot.result:
                issued[slot.result] = (at, slot.name)
    return {name: max(1, distance) for name, distance in latencies.items()}


def count_lines(regions: Sequence[Region], counts: Sequence[int]) -> dict[int, Counter[str]]:
    """Executed vector operations by source line and unit."""
    lines: dict[int, Counter[str]] = defaultdict(Counter)
    for region in regions:
        for _, slot in region.slots:
            if slot.line and slot.unit not in STEP_UNITS:
                lines[slot.line][slot.unit] += counts[region.begin]
    return dict(lines)
