"""Estimates the latency of a compiled module: its operations in order, with the asynchronous copies that overlap them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule import hlo
from evokernel.backends.pallas.schedule.bundles import ScheduleError, read_dump, read_program
from evokernel.backends.pallas.schedule.simulate import Execution, PreparedProgram, execute_program, extrapolate_copy, translate_program
from evokernel.backends.pallas.schedule.unit_usage import UsageTally, tally_usage

OPERATION_FILE = re.compile(r"(\d+)-(.+)-\d+-(final_bundles|final_hlo-static-per-bundle-utilization)\.txt$")
MODULE_FILE = re.compile(r"\d+-TLP-(?:\d+-)?(hlo\.txt|deduplication-map\.txt|vmem_report\.html)$")
FREE_OPCODES = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all", "add-dependency", "opt-barrier"}
FREE_TARGETS = {"AllocateBuffer", "ConcatBitcast", "NopReturnToken"}
MAX_OPERATIONS = 20_000
MAX_NESTING = 16
COPY_LIMIT_S = 5.0
"""CPU seconds after which the simulation of one of XLA's copies is extrapolated."""


@dataclass(frozen=True)
class Operation:
    """One operation of the module: a kernel, a fusion, a copy, or a loop of these."""

    name: str
    kind: str
    latency_us: float
    hbm_bytes: float = 0.0
    dma_wait_share: float = 0.0
    """Share of its time spent waiting for transfers."""
    line: int = 0
    """Line of the candidate's source that asks for it; 0 if the module does not say."""


@dataclass(frozen=True)
class Estimate:
    """Estimated latency and activity of a module on a chip. Shares are of the total time; no figure is a measurement."""

    latency_us: float
    cycles: float
    hbm_bytes: float
    hbm_share: float
    """Share in which HBM is busy, at the bandwidth that long transfers reach."""
    dma_wait_share: float
    unit_shares: dict[str, float]
    """Share in which each unit is busy: mxu, vpu, xlu, eup, load, store, pop, scalar, spill; only units with work."""
    spills: int
    fills: int
    spill_share: float
    """Share of register spills and fills in all vector loads and stores."""
    transfers: int
    mean_transfer_bytes: float | None
    """None if there are no transfers."""
    steps: int
    """Iterations of outermost loops: for a pipelined kernel its grid steps and a few more."""
    vmem_bytes: int | None
    """Peak VMEM allocation; None if the compiler did not report it."""
    unwaited_transfers: int
    """Transfers that the program never waits for: an error in the kernel."""
    operations: tuple[Operation, ...]
    notes: tuple[str, ...]
    is_certified: bool
    """Whether the simulation understood everything it executed. If not, `notes` says why, and the latency must not be used for a reward."""
    compares_indices: bool = False
    """Whether the program compares indices read from memory, which the simulation assumes to differ."""


@dataclass
class ProgramRun:
    """A program of the module that ran, and how often."""

    prepared: PreparedProgram
    schedule: Path
    """The dumped schedule."""
    execution: Execution
    """The last execution."""
    is_kernel: bool
    """Whether the candidate wrote it; the compiler wrote the others."""
    times: int = 0


@dataclass(frozen=True)
class Analysis:
    """An estimate, and the programs that it executed."""

    estimate: Estimate
    programs: tuple[ProgramRun, ...]


def estimate_schedule(folder: Path, chip: Chip, *, limit_s: float = 20.0) -> Estimate:
    """Estimates from the final schedules that the compiler dumped into the folder. Raises ScheduleError if the dump is incomplete.

    The limit is CPU time of this thread, so that the load of the machine does not change the estimate.
    """
    return analyse_schedule(folder, chip, limit_s=limit_s).estimate


def analyse_schedule(folder: Path, chip: Chip, *, limit_s: float = 20.0) -> Analysis:
    """Like `estimate_schedule`, with the executed programs, which can be replayed."""
    walk = ModuleWalk(ModuleDump(folder), chip, time.thread_time() + limit_s)
    walk.run_computation(walk.dump.module.entry)
    return Analysis(walk.make_estimate(), tuple(walk.programs.values()))


class ModuleDump:
    """The dump files of one compiled module."""

    def __init__(self, folder: Path) -> None:
        self.schedules: dict[str, Path] = {}
        self.usages: dict[str, Path] = {}
        try:
            files = sorted(folder.iterdir())  # names begin with a timestamp: the later of two files for one operation wins
        except OSError as error:
            raise ScheduleError(f"cannot list the dumped schedules: {error}") from error
        modules: list[Path] = []
        maps: list[Path] = []
        reports: list[Path] = []
        for file in files:
            if match := OPERATION_FILE.match(file.name):
                (self.schedules if match[3] == "final_bundles" else self.usages)[match[2]] = file
            elif match := MODULE_FILE.match(file.name):
                {"hlo.txt": modules, "deduplication-map.txt": maps, "vmem_report.html": reports}[match[1]].append(file)
        if not modules:
            raise ScheduleError("the compiler dumped no program (HLO), so no latency can be estimated")
        self.module = hlo.parse_module(read_dump(modules[-1]))
        if not self.module.entry:
            raise ScheduleError("the compiler's dump of the program (HLO) has no entry computation, so no latency can be estimated")
        self.duplicates: dict[str, str] = {}
        for file in maps:
            self.duplicates |= hlo.parse_duplicates(read_dump(file))
        self.vmem_bytes = parse_vmem_report(read_dump(reports[-1])) if reports else None


def parse_vmem_report(report: str) -> int | None:
    """Peak VMEM allocation in bytes; None if the report does not contain it."""
    try:
        table, _ = json.JSONDecoder().raw_decode(report[report.index("const DATA =") + len("const DATA =") :].lstrip())
        return max(int(entry["total_size"]) for entry in table["hlo_breakdowns"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


@dataclass
class ModuleWalk:
    """Walks a module and adds up time and traffic. Asynchronous copies form one queue that shares HBM with the running operation."""

    dump: ModuleDump
    chip: Chip
    deadline: float
    seconds: float = 0.0
    requested_bytes: float = 0.0
    """Bytes of all asynchronous copies started so far."""
    arrived_bytes: float = 0.0
    total: UsageTally = field(default_factory=UsageTally)
    operations: list[Operation] = field(default_factory=list)
    doubts: dict[str, None] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)
    prepared_programs: dict[str, PreparedProgram] = field(default_factory=dict)
    executions: dict[str, Execution] = field(default_factory=dict)
    programs: dict[str, ProgramRun] = field(default_factory=dict)
    repeats: int = 1
    """How often the current computation runs, if it is the body of a loop."""
    operation_count: int = 0

    @property
    def bandwidth(self) -> float:
        return self.chip.hbm_bytes_per_s * self.chip.hbm_efficiency

    def run_computation(self, computation: str, nesting: int = 0) -> None:
        """Runs all operations of a computation in order."""
        if nesting > MAX_NESTING:
            raise ScheduleError("computations are nested too deeply")
        copies: dict[str, float] = {}
        for step in self.dump.module.computations.get(computation, []):
            self.operation_count += 1
            if self.operation_count > MAX_OPERATIONS:
                raise ScheduleError("the module has too many operations")
            if step.opcode == "while":
                self.run_loop(step, nesting)
            elif step.opcode in ("call", "conditional") and step.name not in self.dump.schedules:
                self.run_branches(step, nesting)
            elif step.opcode.endswith("-start"):
                self.requested_bytes += step.bytes
                copies[step.name] = self.requested_bytes
                self.total.hbm_bytes += step.bytes
                self.operations.append(Operation(step.name, step.opcode, 0.0, step.bytes))
            elif step.opcode.endswith("-done"):
                self.wait_for_copy(step, copies)
            elif step.opcode not in FREE_OPCODES:
                self.simulate_operation(step)

    def wait_for_copy(self, step: hlo.Instruction, copies: dict[str, float]) -> None:
        """Waits for an asynchronous copy: its remaining bytes have HBM alone."""
        remaining = max(0.0, max((copies.get(name, 0.0) for name in step.operands), default=0.0) - self.arrived_bytes)
        wait_s = remaining / self.bandwidth + (self.chip.read_latency / self.chip.clock_hz if remaining else 0.0)
        self.seconds += wait_s
        self.arrived_bytes += remaining
        self.total.wait_cycles += wait_s * self.chip.clock_hz
        self.operations.append(Operation(step.name, step.opcode, wait_s * 1e6, 0.0, 1.0 if wait_s else 0.0))

    def run_loop(self, step: hlo.Instruction, nesting: int) -> None:
        """Runs the body of a loop once and multiplies it by the trip count."""
        times = hlo.trip_count(step, self.dump.module)
        if times is None:
            times = 1
            self.add_doubt(f"{step.name}: the trip count of the loop is unknown, counted once")
        before, outer, operations = self.seconds, self.total, self.operations
        self.total, self.operations = UsageTally(), []
        self.repeats *= times
        for body in step.called_computations("body"):
            self.run_computation(body, nesting + 1)
        self.repeats //= max(1, times)
        inner, self.total, self.operations = self.total, outer, operations
        once = self.seconds - before
        self.total.add(inner, times)
        self.seconds = before + times * once
        wait_share = inner.wait_cycles / self.chip.clock_hz / once if once else 0.0
        self.operations.append(Operation(step.name, f"while x{times}", times * once * 1e6, times * inner.hbm_bytes, wait_share))

    def run_branches(self, step: hlo.Instruction, nesting: int) -> None:
        """Runs the called computation; for a conditional runs all branches and adds a doubt."""
        computations = step.called_computations("to_apply", "calls", "branch_computations", "true_computation", "false_computation")
        if step.opcode == "conditional":
            self.add_doubt(f"{step.name}: all branches of a conditional are counted")
        for computation in computations:
            self.run_computation(computation, nesting + 1)

    def simulate_operation(self, step: hlo.Instruction) -> None:
        """Executes the dumped schedule of an operation and adds its time."""
        name = self.dump.duplicates.get(step.name, step.name)
        if name not in self.dump.schedules:
            self.count_without_schedule(step)
            return
        if time.thread_time() > self.deadline:
            self.add_doubt("operations are missing: the estimate exceeded its time limit")
            return
        background = self.requested_bytes - self.arrived_bytes
        execution = self.executions.get(name) if not background else None
        if execution is None:
            if name not in self.prepared_programs:
                self.prepared_programs[name] = translate_program(
                    read_program(name, self.dump.schedules[name], self.dump.usages.get(name)), self.chip
                )
            execution = self.execute_operation(step, name, background)
            if background:
                self.arrived_bytes = self.requested_bytes - execution.background_bytes_left
            else:
                self.executions[name] = execution
        self.count_program(name, step, execution)
        usage = tally_usage(self.prepared_programs[name].program, execution, self.chip)
        seconds = execution.cycles / self.chip.clock_hz
        self.seconds += seconds
        self.total.add(usage)
        wait_share = execution.wait_cycles / execution.cycles if execution.cycles else 0.0
        self.operations.append(Operation(step.name, step.opcode, seconds * 1e6, usage.hbm_bytes, wait_share, step.source_line))
        for doubt in execution.doubts:
            self.add_doubt(f"{step.name}: {doubt}")
        self.remarks |= dict.fromkeys(f"{step.name}: {remark}" for remark in execution.remarks)

    def execute_operation(self, step: hlo.Instruction, name: str, background: float) -> Execution:
        """Executes a program once; copies of XLA that take long are extrapolated."""
        if step.opcode != "copy":
            return execute_program(self.prepared_programs[name], self.chip, self.deadline, background)
        deadline = min(self.deadline, time.thread_time() + COPY_LIMIT_S)
        return extrapolate_copy(execute_program(self.prepared_programs[name], self.chip, deadline, background), step.bytes)

    def count_program(self, name: str, step: hlo.Instruction, execution: Execution) -> None:
        """Remembers that a program ran, for replays."""
        prepared = self.prepared_programs[name]
        run = self.programs.setdefault(name, ProgramRun(prepared, self.dump.schedules[name], execution, step.is_kernel))
        run.execution = execution
        run.times += self.repeats

    def count_without_schedule(self, step: hlo.Instruction) -> None:
        """Counts an operation without a dumped schedule: copies into scalar memory and scalar arithmetic belong to the calling program.

        That program also copies an array of one element into a register, which a kernel then receives as a scalar.
        """
        if step.opcode == "copy" and (step.writes_smem or step.element_count == 1):
            seconds = step.bytes / self.bandwidth + self.chip.read_latency / self.chip.clock_hz
            self.seconds += seconds
            self.total.add(
                UsageTally(
                    cycles=0.0, wait_cycles=seconds * self.chip.clock_hz, hbm_bytes=step.bytes, transfers=1, transfer_bytes=step.bytes
                )
            )
            self.operations.append(Operation(step.name, step.opcode, seconds * 1e6, step.bytes, 1.0))
        elif step.opcode == "custom-call" and step.attribute("custom_call_target").strip('"') in FREE_TARGETS:
            return
        elif not step.is_scalar:
            self.add_doubt(f"{step.name} ({step.opcode}): no schedule was dumped, counted as zero")

    def add_doubt(self, text: str) -> None:
        self.doubts[text] = None

    def make_estimate(self) -> Estimate:
        seconds = (
            self.seconds + (self.requested_bytes - self.arrived_bytes) / self.bandwidth
        )  # includes copies that are still running and have no wait
        cycles, total = seconds * self.chip.clock_hz, self.total
        per_cycle = 1 / cycles if cycles else 0.0
        notes = [*self.doubts, *self.remarks]
        if total.unwaited_transfers:
            notes.append(f"transfers without a wait or with an incomplete wait: {total.unwaited_transfers}")
        return Estimate(
            latency_us=seconds * 1e6,
            cycles=cycles,
            hbm_bytes=total.hbm_bytes,
            hbm_share=total.hbm_bytes / self.chip.hbm_bytes_per_cycle * per_cycle,
            dma_wait_share=total.wait_cycles * per_cycle,
            unit_shares={name: busy * per_cycle for name, busy in sorted(total.busy_cycles.items())},
            spills=total.spills,
            fills=total.fills,
            spill_share=(total.spills + total.fills) / max(1, total.vector_accesses),
            transfers=total.transfers,
            mean_transfer_bytes=total.transfer_bytes / total.transfers if total.transfers else None,
            steps=total.steps,
            vmem_bytes=self.dump.vmem_bytes,
            unwaited_transfers=total.unwaited_transfers,
            operations=tuple(self.operations),
            notes=tuple(notes),
            is_certified=not self.doubts and seconds > 0,
            compares_indices=bool(self.remarks),
        )
