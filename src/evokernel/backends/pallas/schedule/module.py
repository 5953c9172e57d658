"""Prices a compiled module: its operations in order, with the copies that run beside them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule import hlo
from evokernel.backends.pallas.schedule.bundles import ScheduleError, read, text_of
from evokernel.backends.pallas.schedule.simulate import Executed, Prepared, execute, prepare
from evokernel.backends.pallas.schedule.units import Tally, tally

FILE = re.compile(r"(\d+)-(.+)-\d+-(final_bundles|final_hlo-static-per-bundle-utilization)\.txt$")
WHOLE = re.compile(r"\d+-TLP-(?:\d+-)?(hlo\.txt|deduplication-map\.txt|vmem_report\.html)$")
FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all", "add-dependency", "opt-barrier"}
FREE_TARGETS = {"AllocateBuffer", "ConcatBitcast", "NopReturnToken"}
MAX_OPERATIONS = 20_000
MAX_NESTING = 16


@dataclass(frozen=True)
class Operation:
    """One operation of the module: a kernel, a fusion, a copy, or a loop of such."""

    name: str
    kind: str
    us: float
    hbm_bytes: float = 0.0
    dma_wait: float = 0.0
    """Share of its time."""


@dataclass(frozen=True)
class Estimate:
    """What a module is expected to do on a chip. Shares are of the whole time; nothing here was measured."""

    us: float
    cycles: float
    hbm_bytes: float
    hbm_share: float
    """Busy time of HBM, at the bandwidth long transfers reach."""
    dma_wait: float
    units: dict[str, float]
    """mxu, vpu, xlu, eup, load, store, pop, scalar, spill: those that were used at all."""
    spills: int
    fills: int
    spill_share: float
    """Of all loads and stores of vectors."""
    transfers: int
    transfer_bytes: float | None
    """Mean size; None without transfers."""
    steps: int
    """Iterations of outermost loops: for a pipelined kernel its grid steps and a few more."""
    vmem_bytes: int | None
    """None when the compiler did not report it."""
    unwaited: int
    """Transfers the program never waits for: a fault of the kernel."""
    operations: tuple[Operation, ...]
    notes: tuple[str, ...]
    certified: bool
    """Whether everything that was executed is understood: if not, the notes say why, and the time is no basis for a reward."""
    compares: bool = False
    """Whether numbers read from memory were compared, and taken to be different."""


def estimate(folder: Path, chip: Chip, *, limit_s: float = 20.0) -> Estimate:
    """From the final schedules the compiler dumped into the folder. ScheduleError when they are not all there.

    The limit is processor time of this thread, so that a busy machine prices the same.
    """
    walk = Walk(Dump(folder), chip, time.thread_time() + limit_s)
    walk.run(walk.dump.module.entry)
    return walk.result()


class Dump:
    """The files of one compiled module."""

    def __init__(self, folder: Path) -> None:
        self.schedules: dict[str, Path] = {}
        self.usages: dict[str, Path] = {}
        try:
            files = sorted(folder.iterdir())  # names begin with the time: of two of one name the later one counts
        except OSError as error:
            raise ScheduleError(f"no schedules: {error}") from error
        modules: list[Path] = []
        maps: list[Path] = []
        reports: list[Path] = []
        for file in files:
            if found := FILE.match(file.name):
                (self.schedules if found[3] == "final_bundles" else self.usages)[found[2]] = file
            elif whole := WHOLE.match(file.name):
                {"hlo.txt": modules, "deduplication-map.txt": maps, "vmem_report.html": reports}[whole[1]].append(file)
        if not modules:
            raise ScheduleError("the compiler dumped no scheduled module")
        self.module = hlo.parse(text_of(modules[-1]))
        if not self.module.entry:
            raise ScheduleError("the scheduled module has no entry")
        self.duplicates: dict[str, str] = {}
        for file in maps:
            self.duplicates |= hlo.duplicates(text_of(file))
        self.vmem_bytes = vmem_bytes(text_of(reports[-1])) if reports else None


def vmem_bytes(report: str) -> int | None:
    """The most that is allocated at once; None when the report does not say."""
    try:
        table, _ = json.JSONDecoder().raw_decode(report[report.index("const DATA =") + len("const DATA =") :].lstrip())
        return max(int(entry["total_size"]) for entry in table["hlo_breakdowns"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


@dataclass
class Walk:
    """Time and traffic so far. Asynchronous copies form one queue that shares HBM with the operation that runs beside it."""

    dump: Dump
    chip: Chip
    deadline: float
    seconds: float = 0.0
    requested: float = 0.0
    """Bytes of asynchronous copies so far."""
    arrived: float = 0.0
    total: Tally = field(default_factory=Tally)
    operations: list[Operation] = field(default_factory=list)
    doubts: dict[str, None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    executed: dict[str, Executed] = field(default_factory=dict)
    visited: int = 0

    @property
    def bandwidth(self) -> float:
        return self.chip.hbm_bytes_per_s * self.chip.hbm_efficiency

    def run(self, computation: str, nesting: int = 0) -> None:
        """All operations of a computation, in order."""
        if nesting > MAX_NESTING:
            raise ScheduleError("computations are nested too deeply")
        copies: dict[str, float] = {}
        for step in self.dump.module.computations.get(computation, []):
            self.visited += 1
            if self.visited > MAX_OPERATIONS:
                raise ScheduleError("the module has too many operations")
            if step.opcode == "while":
                self.loop(step, nesting)
            elif step.opcode in ("call", "conditional") and step.name not in self.dump.schedules:
                self.branch(step, nesting)
            elif step.opcode.endswith("-start"):
                self.requested += step.bytes
                copies[step.name] = self.requested
                self.total.hbm_bytes += step.bytes
                self.operations.append(Operation(step.name, step.opcode, 0.0, step.bytes))
            elif step.opcode.endswith("-done"):
                self.wait(step, copies)
            elif step.opcode not in FREE:
                self.simulate(step)

    def wait(self, step: hlo.Instruction, copies: dict[str, float]) -> None:
        """For an asynchronous copy: what has not arrived by now has HBM for itself."""
        missing = max(0.0, max((copies.get(name, 0.0) for name in step.operands), default=0.0) - self.arrived)
        waited = missing / self.bandwidth + (self.chip.read_latency / self.chip.clock_hz if missing else 0.0)
        self.seconds += waited
        self.arrived += missing
        self.total.waited += waited * self.chip.clock_hz
        self.operations.append(Operation(step.name, step.opcode, waited * 1e6, 0.0, 1.0 if waited else 0.0))

    def loop(self, step: hlo.Instruction, nesting: int) -> None:
        """Its body once, times the trip count."""
        times = hlo.trip_count(step, self.dump.module)
        if times is None:
            times = 1
            self.doubt(f"{step.name}: how often the loop runs is not known, counted once")
        before, outer, listed = self.seconds, self.total, self.operations
        self.total, self.operations = Tally(), []
        for body in step.called("body"):
            self.run(body, nesting + 1)
        inner, self.total, self.operations = self.total, outer, listed
        once = self.seconds - before
        self.total.add(inner, times)
        self.seconds = before + times * once
        waited = inner.waited / self.chip.clock_hz / once if once else 0.0
        self.operations.append(Operation(step.name, f"while x{times}", times * once * 1e6, times * inner.hbm_bytes, waited))

    def branch(self, step: hlo.Instruction, nesting: int) -> None:
        """A call is what it calls; of a condition all branches are counted, and said so."""
        called = step.called("to_apply", "calls", "branch_computations", "true_computation", "false_computation")
        if step.opcode == "conditional":
            self.doubt(f"{step.name}: all branches of a condition are counted")
        for computation in called:
            self.run(computation, nesting + 1)

    def simulate(self, step: hlo.Instruction) -> None:
        """Executes the dumped schedule of an operation."""
        name = self.dump.duplicates.get(step.name, step.name)
        if name not in self.dump.schedules:
            self.without_schedule(step)
            return
        if time.thread_time() > self.deadline:
            self.doubt("operations are left out: pricing took too long")
            return
        background = self.requested - self.arrived
        executed = self.executed.get(name) if not background else None
        if executed is None:
            if name not in self.prepared:
                self.prepared[name] = prepare(read(name, self.dump.schedules[name], self.dump.usages.get(name)), self.chip)
            executed = execute(self.prepared[name], self.chip, self.deadline, background)
            if background:
                self.arrived = self.requested - executed.background_left
            else:
                self.executed[name] = executed
        counted = tally(self.prepared[name].program, executed, self.chip)
        seconds = executed.cycles / self.chip.clock_hz
        self.seconds += seconds
        self.total.add(counted)
        waited = executed.waited / executed.cycles if executed.cycles else 0.0
        self.operations.append(Operation(step.name, step.opcode, seconds * 1e6, counted.hbm_bytes, waited))
        for doubt in executed.doubts:
            self.doubt(f"{step.name}: {doubt}")
        self.remarks |= dict.fromkeys(f"{step.name}: {remark}" for remark in executed.remarks)

    def without_schedule(self, step: hlo.Instruction) -> None:
        """Copies into scalar memory and scalar arithmetic are part of the program that calls the others, and are not dumped."""
        if step.opcode == "copy" and step.into_smem:
            seconds = step.bytes / self.bandwidth + self.chip.read_latency / self.chip.clock_hz
            self.seconds += seconds
            self.total.add(
                Tally(cycles=0.0, waited=seconds * self.chip.clock_hz, hbm_bytes=step.bytes, transfers=1, transferred=step.bytes)
            )
            self.operations.append(Operation(step.name, step.opcode, seconds * 1e6, step.bytes, 1.0))
        elif step.opcode == "custom-call" and step.attribute("custom_call_target").strip('"') in FREE_TARGETS:
            return
        elif not step.scalar:
            self.doubt(f"{step.name} ({step.opcode}): no schedule was dumped, counted as nothing")

    def doubt(self, text: str) -> None:
        self.doubts[text] = None

    def result(self) -> Estimate:
        seconds = self.seconds + (self.requested - self.arrived) / self.bandwidth  # copies nobody waits for are still on their way
        cycles, total = seconds * self.chip.clock_hz, self.total
        per_cycle = 1 / cycles if cycles else 0.0
        notes = [*self.doubts, *self.remarks]
        if total.unwaited:
            notes.append(f"{total.unwaited} transfers are never, or not wholly, waited for")
        return Estimate(
            us=seconds * 1e6,
            cycles=cycles,
            hbm_bytes=total.hbm_bytes,
            hbm_share=total.hbm_bytes / self.chip.hbm_bytes_per_cycle * per_cycle,
            dma_wait=total.waited * per_cycle,
            units={name: busy * per_cycle for name, busy in sorted(total.busy.items())},
            spills=total.spills,
            fills=total.fills,
            spill_share=(total.spills + total.fills) / max(1, total.vector_accesses),
            transfers=total.transfers,
            transfer_bytes=total.transferred / total.transfers if total.transfers else None,
            steps=total.steps,
            vmem_bytes=self.dump.vmem_bytes,
            unwaited=total.unwaited,
            operations=tuple(self.operations),
            notes=tuple(notes),
            certified=not self.doubts and seconds > 0,
            compares=bool(self.remarks),
        )
