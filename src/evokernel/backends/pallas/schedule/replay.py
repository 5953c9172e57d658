"""Answers what the kernels of a module would take if one thing cost nothing: a unit, a line, spills, the latency or bytes of transfers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.bundles import read_dump
from evokernel.backends.pallas.schedule.module_estimate import Analysis, ProgramRun
from evokernel.backends.pallas.schedule.slots import STEP_UNITS, Region, RegionBounds, Slot, count_lines, find_regions, parse_slots
from evokernel.backends.pallas.schedule.stalls import matmul_cycles
from evokernel.backends.pallas.schedule.trace import Costs, Trace, channel_cycles, record_trace, replay_trace, work_cycles

MXU_COUNT = 4
"""MXUs of a TensorCore, which share the peak rate."""
MAX_TEXT_BYTES = 4 << 20
"""Schedules with more text are replayed as a whole only: not by unit and line."""
PIPELINE_BYTES = 512 << 10
"""Size of a well-chosen block: it is read before the kernel can compute, or written after it has."""
MAX_PIPELINE_STEPS = 16


@dataclass
class KernelReplay:
    """One kernel of the module with its recorded run."""

    run: ProgramRun
    trace: Trace
    chip: Chip
    core_cycles: tuple[float, ...]
    """Cycles of each core of the device."""

    @cached_property
    def slots(self) -> list[list[Slot]]:
        if self.run.schedule.stat().st_size > MAX_TEXT_BYTES:
            return [[] for _ in self.run.prepared.program.bundles]
        return parse_slots(read_dump(self.run.schedule))

    @cached_property
    def regions(self) -> list[Region]:
        return find_regions(self.run.prepared, self.slots, self.run.execution.bundle_counts)

    @cached_property
    def bounds(self) -> RegionBounds:
        return RegionBounds(self.run.prepared.program, self.regions, self.chip)

    def cycles(self, costs: Costs) -> float:
        """The cycles of all runs of the kernel with these costs; never more than it takes now."""
        return self.run.times * min(self.trace.cycles, replay_trace(self.trace, self.run.prepared, self.chip, costs))

    def cycles_without(self, is_free: Callable[[Slot], bool], chains: bool = True) -> float:
        """The cycles if operations were free; without `chains`, as if no operation waited for the result of another."""
        return self.cycles(Costs(bundle_factors=self.bounds.factors(len(self.slots), is_free, chains)))

    def step_factors(self) -> list[float]:
        """Factors for large blocks: the scalar work of a step is free, and the operations of many rows hide each other's latency."""
        factors = self.bounds.factors(len(self.slots), lambda slot: False, chains=False)
        bundles = self.run.prepared.program.bundles
        for region in self.regions:
            if bundles[region.begin].loop_depth and all(slot.unit in STEP_UNITS for _, slot in region.slots):
                factors[region.begin : region.end] = [0.0] * (region.end - region.begin)
        return factors


class ModuleReplay:
    """All kernels of a module that could be recorded within the limit. Gains are in microseconds of the module's latency."""

    def __init__(self, analysis: Analysis, chip: Chip, limit_s: float = 1.0) -> None:
        self.chip = chip
        deadline = time.thread_time() + limit_s
        self.kernels: list[KernelReplay] = []
        for run in (run for run in analysis.programs if run.is_kernel):
            traces = [record_trace(run.prepared, chip, core, max(0.0, deadline - time.thread_time())) for core in range(chip.cores)]
            recorded = [trace for trace in traces if trace is not None]
            if len(recorded) < len(traces):
                continue
            slowest = max(recorded, key=lambda trace: trace.cycles)
            self.kernels.append(KernelReplay(run, slowest, chip, tuple(trace.cycles for trace in recorded)))

    def gain_us(self, cycles: Callable[[KernelReplay], float]) -> float:
        """What the module gains if each kernel takes these cycles instead of its own."""
        saved = sum(kernel.run.times * kernel.trace.cycles - cycles(kernel) for kernel in self.kernels)
        return max(0.0, saved) / self.chip.clock_hz * 1e6

    def gain_without(self, is_free: Callable[[Slot], bool]) -> float:
        """The gain if these operations were free."""
        return self.gain_us(lambda kernel: kernel.cycles_without(is_free))

    def gain_without_work(self) -> float:
        """The gain if all operations were free, so that only transfers take time."""
        return self.gain_us(lambda kernel: kernel.cycles(Costs(bundle_factors=[0.0] * len(kernel.slots))))

    def gain_without_chains(self) -> float:
        """The gain if no operation had to wait for the result of another."""
        return self.gain_us(lambda kernel: kernel.cycles_without(lambda slot: False, chains=False))

    def gain_with_bytes(self, factor: float) -> float:
        """The gain if the kernels moved this share of their bytes, in as many fewer transfers."""
        return self.gain_us(lambda kernel: kernel.cycles(Costs(byte_factor=factor, latency_factor=min(1.0, factor))))

    def gain_without_latency(self) -> float:
        """The gain if transfers had no fixed latency."""
        return self.gain_us(lambda kernel: kernel.cycles(Costs(latency_factor=0.0)))

    def gain_without_steps(self) -> float:
        """The gain of few large blocks: steps and transfers have no fixed cost, except for one pipeline start per kernel."""

        def cycles(kernel: KernelReplay) -> float:
            factors = kernel.step_factors()
            replayed = kernel.cycles(Costs(bundle_factors=factors, latency_factor=0.0)) + kernel.run.times * self.chip.write_latency
            return max(replayed, self.pipelined_cycles(kernel, factors))

        return self.gain_us(cycles)

    def gain_with_overlap(self) -> float:
        """The gain if each kernel overlapped its transfers with its work, in blocks of a good size."""
        return self.gain_us(lambda kernel: min(kernel.run.times * kernel.trace.cycles, self.pipelined_cycles(kernel)))

    def pipelined_cycles(self, kernel: KernelReplay, factors: list[float] | None = None) -> float:
        """The cycles of a kernel whose transfers and work overlap, except for the first and the last block."""
        moving = sum(channel_cycles(kernel.trace, self.chip))
        work = work_cycles(kernel.trace, kernel.run.prepared, factors)
        steps = min(MAX_PIPELINE_STEPS, max(2.0, moving * self.chip.hbm_bytes_per_cycle / PIPELINE_BYTES / 2))
        latency = self.chip.write_latency + (self.chip.read_latency if work > moving else 0)
        return kernel.run.times * (max(work, moving) + min(work, moving) / steps + latency)

    def gain_with_even_cores(self) -> float:
        """The gain if all cores had the same amount of work."""
        return self.gain_us(lambda kernel: kernel.run.times * sum(kernel.core_cycles) / len(kernel.core_cycles))

    def gain_with_product_share(self, share: float) -> float:
        """The gain if the kernels kept this share of their operations on the MXU."""
        free: set[int] = set()
        for kernel in self.kernels:
            products = [slot for region in kernel.regions for _, slot in region.slots if slot.unit == "mxu"]
            free |= {id(slot) for at, slot in enumerate(products) if int((at + 1) * share) == int(at * share)}
        return self.gain_without(lambda slot: id(slot) in free)

    @property
    def slowest_share(self) -> float:
        """The share of all cores' time that the slowest core takes: 1 if it is alone."""
        return max(max(kernel.core_cycles) / max(1.0, sum(kernel.core_cycles)) for kernel in self.kernels)

    @property
    def hbm_bytes(self) -> float:
        """Bytes that the slowest core moves from and to HBM."""
        cycles = sum(kernel.run.times * sum(channel_cycles(kernel.trace, self.chip)) for kernel in self.kernels)
        return cycles * self.chip.hbm_bytes_per_cycle

    @property
    def product_flops(self) -> float:
        """Operations that the MXUs execute, in all passes and with padding."""
        cycles = 0.0
        for kernel in self.kernels:
            for count, bundle in zip(kernel.run.execution.bundle_counts, kernel.run.prepared.program.bundles):
                products = (matmul_cycles(op.name, self.chip) for op in bundle.vector_ops if op.name.startswith("vmatmul"))
                cycles += kernel.run.times * count * sum(products)
        return cycles * self.chip.peak_flops / self.chip.clock_hz / MXU_COUNT

    def lines(self) -> dict[int, Counter[str]]:
        """Executed vector operations by source line and unit."""
        return merge_counts(count_lines(kernel.regions, kernel.run.execution.bundle_counts) for kernel in self.kernels)


def merge_counts(tables: Iterable[dict[int, Counter[str]]]) -> dict[int, Counter[str]]:
    merged: dict[int, Counter[str]] = {}
    for table in tables:
        for line, counts in table.items():
            merged[line] = merged.get(line, Counter()) + counts
    return merged
