"""The opportunities of a timed kernel from Nsight Compute's counters. Gains are estimates: no run without the cause was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from evokernel.core.records import Opportunity, Task

SMALLEST_SHARE = 0.03
"""Gains below this share of the latency are not reported."""
MAX_OPPORTUNITIES = 8
EXCESS_BYTES, LARGE_BYTES = 1.25, 64 << 20
"""Smaller tasks stay in the caches, so that their traffic says little."""
FULL_SECTOR, MANY_WAVES, FEW_WARPS = 90.0, 8.0, 40.0
BUSY, IDLE_TENSOR_CORES = 60.0, 5.0
PRODUCT_FLOPS_PER_BYTE = 10.0
"""Only products and convolutions use a byte for as many operations."""


class StallReason(NamedTuple):
    """A cause of stalled warps, the next move, and the card of each backend that explains it."""

    cause: str
    text: str
    cards: tuple[str, ...]


STALLS = {
    "long_scoreboard": StallReason(
        "dependent_operations",
        "warps wait for global memory: load earlier and more per thread (16 bytes), keep several loads in flight",
        ("loads-in-flight", "software-pipelining"),
    ),
    "short_scoreboard": StallReason(
        "dependent_operations",
        "warps wait for shared memory or special functions: avoid bank conflicts, keep values in registers",
        ("bank-conflicts", "shared-memory"),
    ),
    "lg_throttle": StallReason(
        "small_copies",
        "the queue for global memory is full of narrow accesses: load 16 bytes per thread, let neighbours read neighbouring addresses",
        ("vector-loads", "divisibility-hints"),
    ),
    "mio_throttle": StallReason(
        "cross_lane",
        "shared memory, shuffles and special functions are queued: reduce in registers first, shuffle once at the end",
        ("warp-shuffles", "reductions"),
    ),
    "barrier": StallReason(
        "synchronisation",
        "warps wait at __syncthreads or its like: fewer barriers, smaller blocks, warp-level reductions",
        ("block-reduction", "reductions"),
    ),
    "membar": StallReason("synchronisation", "warps wait for memory fences: fewer of them", ("atomics",)),
    "math_pipe_throttle": StallReason(
        "vector_work",
        "arithmetic units are busy: do less work per element, use tensor cores for products",
        ("fast-math-intrinsics", "maths-functions"),
    ),
    "wait": StallReason(
        "dependent_operations",
        "warps wait for their own previous instruction: unroll, use several independent accumulators",
        ("unrolling", "several-rows"),
    ),
    "branch_resolving": StallReason("dependent_operations", "warps wait for branches: use fewer in inner loops", ("divergence", "loops")),
    "no_instruction": StallReason("launch", "instructions are fetched for the first time: unroll less", ("unrolling",)),
    "drain": StallReason("memory_bandwidth", "warps wait at their end until stores are written: write whole sectors", ("coalescing",)),
}
STALL_METRICS = {f"stall_{reason}": f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALLS}
SELECTED = {"stall_selected": "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"}
WAVES = {"waves": "launch__waves_per_multiprocessor"}
METRICS = {**STALL_METRICS, **SELECTED, **WAVES}
"""Our names for the metrics that only opportunities need; older versions of the tool may lack some."""


def find_opportunities(
    task: Task, latency_us: float, figures: Mapping[str, float], counters: Mapping[str, float], cards: Sequence[str] = ()
) -> tuple[Opportunity, ...]:
    """The causes of the latency, largest gain first; no gain goes below the roofline.

    `cards` are the names of the backend's knowledge cards; an opportunity names a card only if the backend has it.
    """
    rows = [
        *launch_rows(latency_us, figures, counters),
        *traffic_rows(task, latency_us, figures, counters),
        *core_rows(task, latency_us, figures, counters),
        *stall_rows(latency_us, figures, counters, cards),
    ]
    least, most = SMALLEST_SHARE * latency_us, max(0.0, latency_us - figures["roofline_us"])
    known = [
        row.model_copy(update={"gain_us": round(min(row.gain_us, most), 4), "card": row.card if row.card in cards else ""})
        for row in rows
        if min(row.gain_us, most) >= least
    ]
    return tuple(sorted(known, key=lambda row: -row.gain_us)[:MAX_OPPORTUNITIES])


def launch_rows(latency_us: float, figures: Mapping[str, float], counters: Mapping[str, float]) -> Iterator[Opportunity]:
    """Several launches instead of one."""
    count = int(counters.get("ncu_launches", 0))
    if count > 1:
        gain_us = (count - 1) * figures["launch_us"]
        summary = f"{count} launches of about {figures['launch_us']:.1f} µs each (estimate): fuse them into one kernel."
        yield Opportunity(cause="launch", gain_us=gain_us, summary=summary, card="launch-overhead")


def traffic_rows(task: Task, latency_us: float, figures: Mapping[str, float], counters: Mapping[str, float]) -> Iterator[Opportunity]:
    """Bytes beyond those that the task needs, and sectors of which only a part is used."""
    moved = counters.get("dram_read_bytes", 0.0) + counters.get("dram_written_bytes", 0.0)
    memory_share = min(1.0, max(counters.get("dram_share", 0.0), counters.get("memory_pipe_share", 0.0)) / 100)
    if task.work.bytes > LARGE_BYTES and moved > EXCESS_BYTES * task.work.bytes:
        gain_us = latency_us * memory_share * (1 - task.work.bytes / moved)
        summary = (
            f"The kernel moves {moved / 1e6:.1f} MB, the operator needs {task.work.bytes / 1e6:.1f} MB (estimate): "
            "read every input once, keep intermediate results on chip."
        )
        yield Opportunity(cause="excess_traffic", gain_us=gain_us, summary=summary, card="fuse-passes")
    used = counters.get("coalesced", 100.0)
    if used < FULL_SECTOR:
        gain_us = latency_us * memory_share * (1 - used / 100)
        summary = f"Only {used:.0f} % of each loaded sector is used (estimate): let neighbouring threads read neighbouring addresses."
        yield Opportunity(cause="unaligned_copies", gain_us=gain_us, summary=summary, card="coalescing")


def core_rows(task: Task, latency_us: float, figures: Mapping[str, float], counters: Mapping[str, float]) -> Iterator[Opportunity]:
    """Multiprocessors without work, a last wave that is not full, products outside the tensor cores."""
    waves = counters.get("waves")
    if waves is not None and 0 < waves < 1:
        summary = f"The blocks fill {waves:.0%} of the multiprocessors' places (estimate): use smaller or more blocks."
        yield Opportunity(cause="few_cores", gain_us=latency_us * (1 - waves), summary=summary, card="occupancy")
    elif waves is not None and 1 < waves <= MANY_WAVES and waves % 1:
        full = -(-waves // 1)
        summary = f"The blocks fill {waves:.2f} waves, so the last one is not full (estimate): choose a grid that is a multiple of a wave."
        yield Opportunity(cause="uneven_work", gain_us=latency_us * (1 - waves / full), summary=summary, card="persistent-kernels")
    is_product = task.work.flops > PRODUCT_FLOPS_PER_BYTE * task.work.bytes
    if is_product and counters.get("sm_share", 0.0) > BUSY and counters.get("tensor_share", 100.0) < IDLE_TENSOR_CORES:
        gain_us = max(0.0, latency_us - figures["roofline_us"] / 0.5)
        summary = (
            f"The arithmetic units are {counters['sm_share']:.0f} % busy and the tensor cores idle: products on tensor cores at half of "
            f"their rate would take {figures['roofline_us'] / 0.5:.1f} µs (estimate)."
        )
        yield Opportunity(cause="product_on_vector", gain_us=gain_us, summary=summary, card="wmma")


def stall_rows(
    latency_us: float, figures: Mapping[str, float], counters: Mapping[str, float], cards: Sequence[str]
) -> Iterator[Opportunity]:
    """Why warps do not issue. A reason's share of all warp cycles is the most it can be worth, above the roofline's time."""
    total = sum(counters.get(name, 0.0) for name in (*STALL_METRICS, *SELECTED))
    if not total:
        return
    above_us = max(0.0, latency_us - figures["roofline_us"])
    for reason, (cause, text, names) in STALLS.items():
        share = counters.get(f"stall_{reason}", 0.0) / total
        if share:
            card = next((name for name in names if name in cards), "")
            summary = f"{share:.0%} of the warps' time above the roofline is '{reason.replace('_', ' ')}' (estimate): {text}."
            yield Opportunity(cause=cause, gain_us=above_us * share, summary=summary, card=card)
