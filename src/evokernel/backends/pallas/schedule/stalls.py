"""Computes the cycles that bundles stall because an MXU or XLU is busy or its result is not ready."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.bundles import Bundle, VectorOp

UNIT = re.compile(r"\.(mxu\d|xlu\d)")
LANES = re.compile(r"vxpose|v(?!pop)\w+\.xlane\.|v(?:perm|rot|bcast)\.lane|vrot\.slane\.down")
PACKED = (".bf16", ".s8", ".f8", ".u8")
RESULT = ("vpop.f32.mr", "vpop.s32.mr")
SHARED = "mrb"
"""Matrix products without an MXU number: the hardware chooses the MXU, and their queue is never the limit."""


def unit_name(name: str, default: str) -> str:
    match = UNIT.search(name)
    return match[1] if match else default


def matmul_cycles(name: str, chip: Chip) -> int:
    return chip.matmul_packed if any(kind in name for kind in PACKED) else chip.matmul


def push_cycles(name: str, chip: Chip) -> int:
    cycles = chip.push_packed if ".bf16" in name or ".s8" in name else chip.push
    return 2 * cycles if ".xpose" in name else cycles


class UnitQueues:
    """The queues of the units during one block of bundles; all units are idle at its start."""

    def __init__(self, chip: Chip, bundles: Sequence[Bundle]) -> None:
        self.chip = chip
        ops = [op for bundle in bundles for op in bundle.vector_ops]
        self.products = Counter(unit_name(op.name, SHARED) for op in ops if op.name.startswith("vmatmul"))
        self.results = Counter(unit_name(op.name, SHARED) for op in ops if op.name.startswith(RESULT))
        self.result_counts: Counter[str] = Counter()
        self.issue_cycles: dict[str, list[int]] = defaultdict(list)
        self.busy: dict[str, int] = {}
        self.pushing: dict[str, int] = {}
        self.ready: dict[str, int] = {}

    def earliest_issue(self, op: VectorOp) -> int:
        """The first cycle in which an operation can issue."""
        name = op.name
        if name.startswith("vmatmul"):
            where = unit_name(name, SHARED)
            if where == SHARED:
                return 0
            loads = ".vlgmr" in name or ".dwg" in name
            return max(self.busy.get(where, 0), self.pushing.get(where, 0) if loads else 0)
        if name.startswith("vmatpush"):
            return self.pushing.get(unit_name(name, "mxu0"), 0)
        if name.startswith(RESULT):
            return self.result_ready_cycle(unit_name(name, SHARED))
        if name.startswith(("vpop.xlane", "vpop.permute")):
            return self.ready.get(op.operand, 0)
        if LANES.match(name):
            return self.busy.get(unit_name(name, "xlu0"), 0)
        return 0

    def result_ready_cycle(self, where: str) -> int:
        """The cycle in which the next result of a unit is ready; results are distributed evenly over its products, in order."""
        product = self.result_counts[where] * self.products[where] // max(1, self.results[where])
        self.result_counts[where] += 1
        issue_cycles = self.issue_cycles[where]
        return issue_cycles[product] + self.chip.matmul_latency if product < len(issue_cycles) else 0

    def issue(self, op: VectorOp, at: int) -> None:
        name = op.name
        if name.startswith("vmatmul"):
            where = unit_name(name, SHARED)
            self.busy[where] = at + matmul_cycles(name, self.chip)
            self.issue_cycles[where].append(at)
        elif name.startswith("vmatpush"):
            self.pushing[unit_name(name, "mxu0")] = at + push_cycles(name, self.chip)
        elif LANES.match(name):
            self.busy[unit_name(name, "xlu0")] = at + self.chip.xlu
            self.ready[op.result] = at + self.chip.xlu_latency


def compute_stalls(bundles: Sequence[Bundle], leaders: set[int], chip: Chip) -> list[int]:
    """Stall cycles before each bundle; `leaders` are the first bundles of blocks."""
    waits = [0] * len(bundles)
    borders = sorted(leaders | {0, len(bundles)})
    for begin, end in pairwise(borders):
        queues, now = UnitQueues(chip, bundles[begin:end]), 0
        for at in range(begin, end):
            ops = bundles[at].vector_ops
            if ops:
                issue_at = max(now, *(queues.earliest_issue(op) for op in ops))
                waits[at] = issue_at - now
                now = issue_at
                for op in ops:
                    queues.issue(op, now)
            now += 1
    return waits
