"""Computes how busy each unit is: executed bundles times the compiler's count of the slots each bundle uses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.bundles import Program
from evokernel.backends.pallas.schedule.simulate import Execution
from evokernel.backends.pallas.schedule.stalls import LANES, SHARED, matmul_cycles, unit_name

SLOTS = {"VALU": "vpu", "EUP": "eup", "VLOAD": "load", "VSTORE": "store", "VPOP": "pop", "SALU": "scalar"}
SPILL, FILL = "VSTORE:SPILL", "VLOAD:FILL"
MXUS = 2
"""Number of MXUs that share the products without an MXU number."""


@dataclass
class UsageTally:
    """Counts for one or more executed operations."""

    cycles: float = 0.0
    wait_cycles: float = 0.0
    hbm_bytes: float = 0.0
    transfers: int = 0
    transfer_bytes: float = 0.0
    """Includes transfers within the chip."""
    busy_cycles: dict[str, float] = field(default_factory=dict)
    """Unit to its busy cycles; fractional, because several slots share a cycle."""
    spills: int = 0
    fills: int = 0
    vector_accesses: int = 0
    """Vector loads and stores, including spills and fills."""
    steps: int = 0
    """Iterations of outermost loops: for a pipelined kernel its grid steps and a few more."""
    unwaited_transfers: int = 0

    def add(self, other: UsageTally, times: int = 1) -> None:
        for name, value in vars(other).items():
            if name == "busy_cycles":
                for key, cycles in other.busy_cycles.items():
                    self.busy_cycles[key] = self.busy_cycles.get(key, 0.0) + cycles * times
            else:
                setattr(self, name, getattr(self, name) + value * times)


def tally_usage(program: Program, execution: Execution, chip: Chip) -> UsageTally:
    """Counts for one execution of one program."""
    usage = UsageTally(
        cycles=execution.cycles,
        wait_cycles=execution.wait_cycles,
        hbm_bytes=execution.bytes_read + execution.bytes_written,
        transfers=execution.transfers,
        transfer_bytes=execution.bytes_read + execution.bytes_written + execution.bytes_local,
        busy_cycles=count_queue_cycles(program, execution.bundle_counts, chip),
        steps=max((count for bundle, count in zip(program.bundles, execution.bundle_counts) if bundle.loop_depth == 1), default=0),
        unwaited_transfers=execution.unwaited_transfers,
    )
    if program.usage:
        slots: Counter[str] = Counter()
        for count, row in zip(execution.bundle_counts, program.usage.rows):
            if count:
                for name, slot_count in zip(program.usage.units, row):
                    if slot_count:
                        slots[name] += count * slot_count
        capacity = dict(zip(program.usage.units, program.usage.capacity))
        for name, unit in SLOTS.items():
            if slots[name]:
                usage.busy_cycles[unit] = slots[name] / max(1, capacity.get(name, 1))
        usage.spills, usage.fills = slots[SPILL], slots[FILL]
        usage.vector_accesses = slots["VLOAD"] + slots["VSTORE"]
        spilling = max(slots[SPILL] / max(1, capacity.get(SPILL, 1)), slots[FILL] / max(1, capacity.get(FILL, 1)))
        if spilling:
            usage.busy_cycles["spill"] = spilling
    return usage


def count_queue_cycles(program: Program, counts: list[int], chip: Chip) -> dict[str, float]:
    """Cycles for which operations occupy the MXU and the XLU; the busiest unit of each kind counts."""
    products: Counter[str] = Counter()
    lanes: Counter[str] = Counter()
    for count, bundle in zip(counts, program.bundles):
        if count:
            for op in bundle.vector_ops:
                if op.name.startswith("vmatmul"):
                    products[unit_name(op.name, SHARED)] += count * matmul_cycles(op.name, chip)
                elif LANES.match(op.name):
                    lanes[unit_name(op.name, "")] += count * chip.xlu
    busy: dict[str, float] = {}
    if products:
        busy["mxu"] = products[SHARED] / MXUS if SHARED in products else max(products.values())
    if lanes:
        busy["xlu"] = max(lanes.values())
    return busy
