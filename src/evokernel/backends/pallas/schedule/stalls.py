"""Cycles a bundle has to wait because an MXU or XLU is still busy or has not answered yet."""

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
"""Products that name no MXU: the compiler leaves the choice to the hardware, and their queue is never the limit."""


def unit(name: str, otherwise: str) -> str:
    found = UNIT.search(name)
    return found[1] if found else otherwise


def matmul_cycles(name: str, chip: Chip) -> int:
    return chip.matmul_packed if any(kind in name for kind in PACKED) else chip.matmul


def push_cycles(name: str, chip: Chip) -> int:
    cycles = chip.push_packed if ".bf16" in name or ".s8" in name else chip.push
    return 2 * cycles if ".xpose" in name else cycles


class Queues:
    """The units during one stretch of bundles; all idle when it begins."""

    def __init__(self, chip: Chip, bundles: Sequence[Bundle]) -> None:
        self.chip = chip
        ops = [op for bundle in bundles for op in bundle.vector]
        self.products = Counter(unit(op.name, SHARED) for op in ops if op.name.startswith("vmatmul"))
        self.results = Counter(unit(op.name, SHARED) for op in ops if op.name.startswith(RESULT))
        self.fetched: Counter[str] = Counter()
        self.issued: dict[str, list[int]] = defaultdict(list)
        self.busy: dict[str, int] = {}
        self.pushing: dict[str, int] = {}
        self.ready: dict[str, int] = {}

    def earliest(self, op: VectorOp) -> int:
        """The first cycle in which it can be issued."""
        name = op.name
        if name.startswith("vmatmul"):
            where = unit(name, SHARED)
            if where == SHARED:
                return 0
            loads = ".vlgmr" in name or ".dwg" in name
            return max(self.busy.get(where, 0), self.pushing.get(where, 0) if loads else 0)
        if name.startswith("vmatpush"):
            return self.pushing.get(unit(name, "mxu0"), 0)
        if name.startswith(RESULT):
            return self.result(unit(name, SHARED))
        if name.startswith(("vpop.xlane", "vpop.permute")):
            return self.ready.get(op.operand, 0)
        if LANES.match(name):
            return self.busy.get(unit(name, "xlu0"), 0)
        return 0

    def result(self, where: str) -> int:
        """Results of several products are spread evenly over them, in order."""
        product = self.fetched[where] * self.products[where] // max(1, self.results[where])
        self.fetched[where] += 1
        issued = self.issued[where]
        return issued[product] + self.chip.matmul_latency if product < len(issued) else 0

    def issue(self, op: VectorOp, at: int) -> None:
        name = op.name
        if name.startswith("vmatmul"):
            where = unit(name, SHARED)
            self.busy[where] = at + matmul_cycles(name, self.chip)
            self.issued[where].append(at)
        elif name.startswith("vmatpush"):
            self.pushing[unit(name, "mxu0")] = at + push_cycles(name, self.chip)
        elif LANES.match(name):
            self.busy[unit(name, "xlu0")] = at + self.chip.xlu
            self.ready[op.result] = at + self.chip.xlu_latency


def stalls(bundles: Sequence[Bundle], leaders: set[int], chip: Chip) -> list[int]:
    """Extra cycles before each bundle; `leaders` are the bundles control can come to from elsewhere."""
    waits = [0] * len(bundles)
    borders = sorted(leaders | {0, len(bundles)})
    for begin, end in pairwise(borders):
        queues, now = Queues(chip, bundles[begin:end]), 0
        for at in range(begin, end):
            ops = bundles[at].vector
            if ops:
                issue_at = max(now, *(queues.earliest(op) for op in ops))
                waits[at] = issue_at - now
                now = issue_at
                for op in ops:
                    queues.issue(op, now)
            now += 1
    return waits
