"""How busy each unit was: executed bundles against the compiler's own count of what every bundle takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.bundles import Program
from evokernel.backends.pallas.schedule.simulate import Executed
from evokernel.backends.pallas.schedule.stalls import LANES, SHARED, matmul_cycles, unit

SLOTS = {"VALU": "vpu", "EUP": "eup", "VLOAD": "load", "VSTORE": "store", "VPOP": "pop", "SALU": "scalar"}
SPILL, FILL = "VSTORE:SPILL", "VLOAD:FILL"
MXUS = 2
"""Among which products that name no MXU are shared out."""


@dataclass
class Tally:
    """What was counted while an operation, or several, ran."""

    cycles: float = 0.0
    waited: float = 0.0
    hbm_bytes: float = 0.0
    transfers: int = 0
    transferred: float = 0.0
    """Bytes, those that stay on the chip included."""
    busy: dict[str, float] = field(default_factory=dict)
    """Unit to the cycles it was needed for; fractional, because several slots share a cycle."""
    spills: int = 0
    fills: int = 0
    vector_accesses: int = 0
    """Loads and stores of vectors, spills and fills among them."""
    steps: int = 0
    """Iterations of outermost loops: for a pipelined kernel the steps of its grid and a few more."""
    unwaited: int = 0

    def add(self, other: Tally, times: int = 1) -> None:
        for name, value in vars(other).items():
            if name == "busy":
                for key, cycles in other.busy.items():
                    self.busy[key] = self.busy.get(key, 0.0) + cycles * times
            else:
                setattr(self, name, getattr(self, name) + value * times)


def tally(program: Program, executed: Executed, chip: Chip) -> Tally:
    """Of one execution of one program."""
    counted = Tally(
        cycles=executed.cycles,
        waited=executed.waited,
        hbm_bytes=executed.bytes_read + executed.bytes_written,
        transfers=executed.transfers,
        transferred=executed.bytes_read + executed.bytes_written + executed.bytes_local,
        busy=queue_cycles(program, executed.counts, chip),
        steps=max((count for bundle, count in zip(program.bundles, executed.counts) if bundle.depth == 1), default=0),
        unwaited=executed.unwaited,
    )
    if program.usage:
        slots: Counter[str] = Counter()
        for count, row in zip(executed.counts, program.usage.rows):
            if count:
                for name, used in zip(program.usage.units, row):
                    if used:
                        slots[name] += count * used
        capacity = dict(zip(program.usage.units, program.usage.capacity))
        for name, called in SLOTS.items():
            if slots[name]:
                counted.busy[called] = slots[name] / max(1, capacity.get(name, 1))
        counted.spills, counted.fills = slots[SPILL], slots[FILL]
        counted.vector_accesses = slots["VLOAD"] + slots["VSTORE"]
        spilling = max(slots[SPILL] / max(1, capacity.get(SPILL, 1)), slots[FILL] / max(1, capacity.get(FILL, 1)))
        if spilling:
            counted.busy["spill"] = spilling
    return counted


def queue_cycles(program: Program, counts: list[int], chip: Chip) -> dict[str, float]:
    """MXU and XLU by the cycles their operations occupy them; the busiest of several counts."""
    products: Counter[str] = Counter()
    lanes: Counter[str] = Counter()
    for count, bundle in zip(counts, program.bundles):
        if count:
            for op in bundle.vector:
                if op.name.startswith("vmatmul"):
                    products[unit(op.name, SHARED)] += count * matmul_cycles(op.name, chip)
                elif LANES.match(op.name):
                    lanes[unit(op.name, "")] += count * chip.xlu
    busy: dict[str, float] = {}
    if products:
        busy["mxu"] = products[SHARED] / MXUS if SHARED in products else max(products.values())
    if lanes:
        busy["xlu"] = max(lanes.values())
    return busy
