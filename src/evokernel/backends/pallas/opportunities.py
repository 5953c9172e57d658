"""The opportunities of an estimated kernel: what it would gain without each cause of its latency, and the next move."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule.module_estimate import Analysis, Operation
from evokernel.backends.pallas.schedule.replay import ModuleReplay
from evokernel.backends.pallas.schedule.slots import Slot
from evokernel.core.labels import format_count
from evokernel.core.records import Opportunity, Task

SMALLEST_SHARE = 0.02
"""Gains below this share of the latency are not reported."""
MAX_OPPORTUNITIES, MAX_LINES = 8, 6
EXCESS_BYTES = 1.1
LARGE_TRANSFER_KIB = 128
"""From this size on, the fixed latency of transfers that overlap with work is hidden."""
ONE_LINE, EXPLAINED = 0.8, 0.7
MANY_PASSES, FEWER_PASSES, REPEATED_PRODUCT = 4.5, 3, 1.8
UNITS = {
    "xlu": ("cross_lane", "reductions and moves across lanes (XLU)", "row-sums"),
    "vpu": ("vector_work", "elementwise arithmetic (VPU)", "functions-before-broadcast"),
    "eup": ("transcendental", "transcendental functions (EUP)", "function-costs"),
    "load": ("vector_memory", "vector loads", "fuse-passes"),
    "store": ("vector_memory", "vector stores", "fuse-passes"),
    "scalar": ("scalar_work", "scalar operations", "loops"),
}
MOVES = {
    "xlu": "combine whole tiles elementwise first and reduce across lanes once at the end; avoid transposes and lane shuffles",
    "vpu": "do less elementwise work: compute it once instead of in every step, use cheaper forms, move sums of products to the MXU",
    "eup": "call fewer of them: before broadcasting, once per row, shared exponentials, one reciprocal instead of divisions",
    "load": "read each value once per step and keep it in registers",
    "store": "write each value once per step; avoid masked and strided stores",
    "scalar": "simplify index arithmetic and unroll short loops",
}


def find_opportunities(task: Task, analysis: Analysis, chip: Chip) -> tuple[Opportunity, ...]:
    """The causes of the latency by replay, largest gain first; empty if no run of a kernel could be recorded.

    No gain goes below the time of the bytes that the task needs.
    """
    replay = ModuleReplay(analysis, chip)
    if not replay.kernels:
        return ()
    latency_us = analysis.estimate.latency_us
    least = SMALLEST_SHARE * latency_us
    rows = [*outside_rows(analysis), *traffic_rows(task, replay), *pipeline_rows(replay, analysis), *core_rows(replay)]
    if replay.gain_without_work() >= least:
        rows += [*product_rows(task, replay), *work_rows(replay, least)]
    most = max(0.0, latency_us - moving_us(task, analysis, chip))
    gains = [row.model_copy(update={"gain_us": round(min(row.gain_us, most), 4)}) for row in rows]
    return tuple(sorted((row for row in gains if row.gain_us >= least), key=lambda row: -row.gain_us)[:MAX_OPPORTUNITIES])


def moving_us(task: Task, analysis: Analysis, chip: Chip) -> float:
    """The time of the bytes that no change avoids: those of the task, or those of the kernel if it moves fewer."""
    return min(task.work.bytes / chip.cores, analysis.estimate.hbm_bytes) / (chip.hbm_bytes_per_cycle * chip.clock_hz) * 1e6


def outside_rows(analysis: Analysis) -> Iterator[Opportunity]:
    """Operations of XLA around the kernels: layout changes, padding, casts."""
    kernels = {run.prepared.program.name for run in analysis.programs if run.is_kernel}
    others = [
        operation
        for operation in analysis.estimate.operations
        if operation.latency_us and operation.name not in kernels and not operation.kind.startswith(("custom-call", "while"))
    ]
    if others:
        names = ", ".join(describe_operation(operation) for operation in sorted(others, key=lambda one: -one.latency_us)[:3])
        yield Opportunity(
            cause="excess_traffic",
            gain_us=sum(operation.latency_us for operation in others),
            line=max(others, key=lambda one: one.latency_us).line,
            summary=f"XLA runs {format_count(len(others), 'operation')} outside the kernel ({names}): do their work inside it.",
            card="outside-the-kernel",
        )


def describe_operation(operation: Operation) -> str:
    where = f" at line {operation.line}" if operation.line else ""
    return f"{operation.name.partition('.')[0]}{where} {operation.latency_us:.1f} µs"


def traffic_rows(task: Task, replay: ModuleReplay) -> Iterator[Opportunity]:
    """Bytes beyond those that the task needs."""
    needed, moved = task.work.bytes * replay.slowest_share, replay.hbm_bytes
    if not needed or moved < EXCESS_BYTES * needed:
        return
    count = sum(kernel.run.times for kernel in replay.kernels)
    if count > 1:
        move, card = f"the intermediate results of {count} kernels go through HBM: fuse them into one kernel", "fuse-passes"
    else:
        move, card = "blocks are read again: order the grid so that they stay, or use larger blocks", "grid-order"
    yield Opportunity(
        cause="excess_traffic",
        gain_us=replay.gain_with_bytes(needed / moved),
        summary=f"The kernel moves {moved / 1e6:.1f} MB, the operator needs {needed / 1e6:.1f} MB; {move}.",
        card=card,
    )


def pipeline_rows(replay: ModuleReplay, analysis: Analysis) -> Iterator[Opportunity]:
    """Fixed costs of steps and transfers, and transfers that do not overlap with work."""
    estimate = analysis.estimate
    size_kib = (estimate.mean_transfer_bytes or 0) / 1024
    figures = f"{estimate.steps} steps and {estimate.transfers} transfers of {size_kib:.0f} KiB on average"
    if size_kib >= LARGE_TRANSFER_KIB:
        waiting = f"the kernel waits {estimate.dma_wait_share:.0%} of the time, and HBM is busy {estimate.hbm_share:.0%}"
        summary = f"Transfers and work take turns ({figures}; {waiting}): split the work into 4 to 16 grid steps, or use two buffers."
        yield Opportunity(cause="no_overlap", gain_us=replay.gain_with_overlap(), summary=summary, card="buffer-count")
        return
    latency_us, steps_us = replay.gain_without_latency(), replay.gain_without_steps()
    if latency_us > steps_us / 2:
        summary = f"{figures}: their fixed latency is not hidden. Use blocks of 128 KiB and more, or more transfers in flight."
        yield Opportunity(cause="small_copies", gain_us=steps_us, summary=summary, card="larger-blocks")
    else:
        summary = f"{figures}: index maps, semaphores and the start of transfers dominate. Use larger blocks, so that fewer steps do more."
        yield Opportunity(cause="step_overhead", gain_us=steps_us, summary=summary, card="fewer-steps")


def core_rows(replay: ModuleReplay) -> Iterator[Opportunity]:
    """Cores without work, or with less than others."""
    for kernel in replay.kernels:
        if len(kernel.core_cycles) > 1:
            idle = min(kernel.core_cycles) < 0.05 * max(kernel.core_cycles)
            shares = ", ".join(f"{cycles / replay.chip.clock_hz * 1e6:.1f} µs" for cycles in kernel.core_cycles)
            yield Opportunity(
                cause="few_cores" if idle else "uneven_work",
                gain_us=replay.gain_with_even_cores(),
                summary=f"The cores of the device work {shares}: mark independent grid dimensions parallel, with an even number of steps.",
                card="dimension-semantics",
            )
            return


def product_rows(task: Task, replay: ModuleReplay) -> Iterator[Opportunity]:
    """More passes of the MXU than the product needs."""
    if not task.work.flops or not replay.product_flops:
        return
    passes = replay.product_flops * replay.chip.cores / task.work.flops
    is_wide = any(tensor.dtype == "float32" for tensor in (*task.signature.inputs, *task.signature.params))
    target = FEWER_PASSES if passes >= MANY_PASSES and is_wide else 1 if passes >= REPEATED_PRODUCT and not is_wide else 0
    if target:
        move = (
            "three bfloat16 passes are exact to about 1e-5"
            if target == FEWER_PASSES
            else "compute each product once, with bfloat16 operands and full tiles"
        )
        yield Opportunity(
            cause="matrix_work",
            gain_us=replay.gain_with_product_share(target / passes),
            line=busiest_line(replay, "mxu"),
            summary=f"The MXU executes {passes:.1f} times the operations of the operator; {move}.",
            card="three-pass-matmul" if target == FEWER_PASSES else "matmul-precision",
        )


def busiest_line(replay: ModuleReplay, unit: str) -> int:
    """The line with most operations on the unit; 0 if the compiler names no lines."""
    lines = {line: counts[unit] for line, counts in replay.lines().items() if counts[unit]}
    return max(lines, key=lambda line: lines[line], default=0)


def work_rows(replay: ModuleReplay, least: float) -> Iterator[Opportunity]:
    """Units, spills, dependent operations and source lines."""
    spills_us = replay.gain_without(lambda slot: slot.is_spill)
    if spills_us >= least:
        count = sum(slot.is_spill for kernel in replay.kernels for region in kernel.regions for _, slot in region.slots)
        summary = f"{count} loads and stores of a step are register spills: keep fewer values alive, combine each as soon as it exists."
        yield Opportunity(cause="spills", gain_us=spills_us, line=0, summary=summary, card="live-values")
    lines = replay.lines()
    top_lines = sorted(lines, key=lambda line: -sum(lines[line].values()))[:MAX_LINES]
    line_us = {line: replay.gain_without(partial(is_at, line=line)) for line in top_lines}
    largest_us = spills_us
    for unit in UNITS:
        gain_us = replay.gain_without(partial(is_at, unit=unit))
        if gain_us >= least:
            largest_us = max(largest_us, gain_us)
            places = [line for line in top_lines if lines[line][unit] and line_us[line] >= least / 2]
            by_line = {line: replay.gain_without(partial(is_at, unit=unit, line=line)) for line in places}
            yield from unit_rows(unit, gain_us, {line: us for line, us in by_line.items() if us >= least})
    chains_us = replay.gain_without_chains()
    if largest_us < EXPLAINED * chains_us:
        summary = "Operations wait for the results of others while all units idle: give each step more independent rows or accumulators."
        yield Opportunity(cause="dependent_operations", gain_us=chains_us, summary=summary, card="independent-rows")


def is_at(slot: Slot, unit: str = "", line: int = 0) -> bool:
    """Whether an operation belongs to a unit and a line, where these are given; spills belong to no unit."""
    return (not unit or (slot.unit == unit and not slot.is_spill)) and (not line or slot.line == line)


def unit_rows(unit: str, gain_us: float, by_line: dict[int, float]) -> Iterator[Opportunity]:
    """One unit: as a whole, or at its line if one line explains nearly all of it; then the other lines."""
    cause, words, card = UNITS[unit]
    first = max(by_line, key=lambda line: by_line[line], default=0)
    only_line = first if first and by_line[first] >= ONE_LINE * gain_us else 0
    named = ", ".join(f"line {line}: {us:.1f} µs" for line, us in sorted(by_line.items(), key=lambda item: -item[1])[:3])
    figures = f" ({named})" if named and not only_line else ""
    title = words[0].upper() + words[1:]
    yield Opportunity(cause=cause, gain_us=gain_us, line=only_line, summary=f"{title}{figures}: {MOVES[unit]}.", card=card)
    for line, us in by_line.items():
        if line != only_line:
            yield Opportunity(cause=cause, gain_us=us, line=line, summary=f"{title} of this line.", card=card)
