"""Reads from a dumped schedule what each operation needs: its unit, its source line, and the results it waits for.

The operations between two synchronisation points form a region. A region takes at least as long as its busiest unit and as its longest
chain of dependent operations. Without a unit, a line or the spills, that bound shrinks, and the region's time with it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, pairwise
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


class RegionWork:
    """The operations of a region in the form from which bounds are computed many times."""

    def __init__(self, region: Region, latencies: Mapping[str, int], chip: Chip) -> None:
        self.slots = [slot for _, slot in region.slots]
        self.units = [slot.unit for slot in self.slots]
        self.queues = [find_queue(slot.name, chip) for slot in self.slots]
        self.unit_counts, self.queue_counts = Counter(self.units), Counter(self.queues)
        producers: dict[str, int] = {}
        self.chain: list[tuple[tuple[int, ...], int]] = []
        """For each operation: the operations whose results it uses, and its latency."""
        for at, slot in enumerate(self.slots):
            self.chain.append((tuple(producers[one] for one in slot.operands if one in producers), latencies.get(slot.name, 1)))
            if slot.result:
                producers[slot.result] = at

    def busiest_cycles(self, free: Sequence[bool], capacity: Mapping[str, int]) -> float:
        """The cycles for which the busiest unit works."""
        units, queues = Counter(self.unit_counts), Counter(self.queue_counts)
        units.subtract(compress(self.units, free))
        queues.subtract(compress(self.queues, free))
        cycles: Counter[str] = Counter()
        for (queue, each), count in queues.items():
            cycles[queue] += each * count
        cycles[SHARED] //= MXUS
        return max(*(units[unit] / slots for unit, slots in capacity.items()), *cycles.values())

    def chain_cycles(self, free: Sequence[bool]) -> float:
        """The length of the longest chain of dependent operations; a free operation passes its operands on at once."""
        ends: list[int] = []
        longest = 0
        for (producers, latency), is_free in zip(self.chain, free):
            start = 0
            for producer in producers:
                if ends[producer] > start:
                    start = ends[producer]
            if is_free:
                ends.append(start)
                continue
            ends.append(start + latency)
            if start >= longest:
                longest = start + 1
        return longest


def find_queue(name: str, chip: Chip) -> tuple[str, int]:
    """The queue of the unit that an operation occupies, and for how many cycles; zero cycles if it occupies none."""
    if name.startswith("vmatmul"):
        return unit_name(name, SHARED), matmul_cycles(name, chip)
    return (unit_name(name, "xlu0"), chip.xlu) if LANES.match(name) else (SHARED, 0)


class RegionBounds:
    """Lower bounds of the regions of one program, with all operations or without some of them."""

    def __init__(self, program: Program, regions: Sequence[Region], chip: Chip) -> None:
        self.regions, latencies = regions, observe_latencies(regions)
        table = dict(zip(program.usage.units, program.usage.capacity)) if program.usage else {}
        self.capacity = {unit: max(1, table.get(name, DEFAULT_CAPACITY[unit])) for unit, name in CAPACITY_NAMES.items()}
        self.works = [RegionWork(region, latencies, chip) for region in regions]
        self.longest_chains = [work.chain_cycles([False] * len(work.slots)) for work in self.works]
        self.full = [self.bound_region(at, [False] * len(work.slots)) for at, work in enumerate(self.works)]

    def bound_region(self, at: int, free: Sequence[bool], chains: bool = True) -> float:
        """The cycles that a region takes at least, without the free operations; without `chains`, as if no operation waited."""
        work = self.works[at]
        bound = work.busiest_cycles(free, self.capacity)
        if not chains or bound >= self.longest_chains[at]:  # free operations make no chain longer
            return bound
        return max(bound, work.chain_cycles(free) if any(free) else self.longest_chains[at])

    def factors(self, bundles: int, is_free: Callable[[Slot], bool], chains: bool = True) -> list[float]:
        """The factor of every bundle's time without the free operations; 1 where nothing changes."""
        factors = [1.0] * bundles
        for at, (region, full) in enumerate(zip(self.regions, self.full)):
            free = [is_free(slot) for slot in self.works[at].slots]
            if full and (not chains or any(free)):
                factor = min(1.0, self.bound_region(at, free, chains) / full)
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
