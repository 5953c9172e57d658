"""Finds the bottleneck of a timed kernel: compares its bytes and operations per second with this machine's measured ceilings."""

from __future__ import annotations

from collections.abc import Iterator

from evokernel.backends.cpp.ceilings import NOMINAL, Ceilings, load_or_measure_ceilings
from evokernel.core.records import Opportunity, Outcome, Profile, Task

CALL_US = 5.0  # below this, call overhead dominates
FLOOR_MARGIN = 4.0
MEMORY_BYTES, MEMORY_MARGIN = 64 << 20, 3.0
"""The memory ceiling was measured with this many bytes; more bytes fit no faster memory. The margin allows for kernels that write
better than the benchmark does (zeros were written 1.2 times as fast) and for ceilings that were measured on a busy machine."""


IN_CACHE = (
    "The data fit into the cache and move faster than the measured ceiling of memory. "
    "The floor is that of the first-level cache, which data of this size do not reach."
)
FITS_CACHE = " The data fit into the last-level cache, so less time than the floor is possible."
LESS_WORK = "Faster than the counted operations allow: it does less work than the reference, or the ceiling was measured on a busy machine."
LESS_TRAFFIC = (
    "Faster than the measured ceiling of memory: the data stay in a cache, or the ceiling was measured on a busy machine, "
    "or fewer bytes move than were counted."
)
SMALLEST_SHARE = 0.1
"""Smaller gains are within the error of the ceilings."""
ROOFLINE_CAUSES = {
    ("memory", False): ("excess_traffic", "fuse-passes", "Touch each byte once: fuse passes, read with unit stride, block for the cache."),
    ("compute", True): ("vector_work", "register-blocking", "Vectorise fully, keep accumulators in registers, block for reuse."),
    ("latency", False): ("dependent_operations", "vectoriser-blockers", "Vectorise, break chains of operations, reorder loops."),
    ("latency", True): ("dependent_operations", "several-accumulators", "Vectorise, use several accumulators, reorder loops."),
}
"""Bottleneck and whether arithmetic is the higher floor: the likely cause, its card and the next move."""


def compare_with_ceilings(compiler: str, flags: str, threads: int, task: Task, outcome: Outcome) -> Profile | None:
    """Profiles a timed outcome; None without timings. A synthetic clock is compared with nominal ceilings, so that equal runs are equal."""
    latency_us = outcome.latency_us
    if not latency_us:
        return None
    ceilings = NOMINAL if outcome.clock == "synthetic" else load_or_measure_ceilings(compiler, flags)
    return diagnose(task, latency_us, ceilings, threads)


def diagnose(task: Task, latency_us: float, ceilings: Ceilings, threads: int = 1) -> Profile:
    """Names the nearer of the two ceilings as the bottleneck; far below both, it is latency.

    A latency below the floor refutes a ceiling, so that no floor is reported then.
    """
    stays_in_cache = moves_faster_than_memory(task.work.bytes, latency_us, ceilings, threads)
    bandwidth_gbs = ceilings.cache_gbs if stays_in_cache or task.work.bytes <= ceilings.cache_bytes else ceilings.memory_gbs
    achieved_gbs, achieved_gflops = task.work.bytes / latency_us / 1e3, task.work.flops / latency_us / 1e3
    memory, compute = achieved_gbs / (bandwidth_gbs * threads), achieved_gflops / (ceilings.gflops * threads)
    memory_us = task.work.bytes / (bandwidth_gbs * threads) / 1e3
    compute_us = task.work.flops / (ceilings.gflops * threads) / 1e3
    figures = {
        "achieved_gbs": achieved_gbs,
        "achieved_gflops": achieved_gflops,
        "memory_share": memory,
        "compute_share": compute,
        "ceiling_gbs": bandwidth_gbs * threads,
        "ceiling_gflops": ceilings.gflops * threads,
        "writing_us": min_transfer_us(sum(tensor.nbytes for tensor in task.signature.outputs), ceilings, threads),
        "moving_us": min_transfer_us(task.work.bytes, ceilings, threads),
    }
    has_floor = max(memory, compute) <= 1
    if has_floor:
        figures["roofline_us"] = max(memory_us, compute_us)
    bottleneck, advice = classify_bottleneck(latency_us, memory, compute, compute_us > memory_us)
    if stays_in_cache and bottleneck != "compute" and has_floor:
        bottleneck, advice = "memory", IN_CACHE
    elif bottleneck == "memory" and has_floor and ceilings.cache_bytes < task.work.bytes <= ceilings.last_level_bytes:
        advice += FITS_CACHE
    bandwidth_text = f"{achieved_gbs:.2f} GB/s ({memory:.0%} of {bandwidth_gbs * threads:.0f})"
    compute_text = f"{achieved_gflops:.2f} GFLOP/s ({compute:.0%} of {ceilings.gflops * threads:.0f})"
    roofline_text = f"the roofline allows {max(memory_us, compute_us):.1f} of {latency_us:.1f} µs" if has_floor else "no floor is reported"
    summary = f"{bandwidth_text} and {compute_text}; {roofline_text}. {advice}"
    has_gap = has_floor and advice != IN_CACHE
    return Profile(
        bottleneck=bottleneck,
        summary=summary,
        figures={name: round(value, 4) for name, value in figures.items()},
        opportunities=tuple(estimate_opportunities(bottleneck, latency_us, memory_us, compute_us, threads)) if has_gap else (),
    )


def moves_faster_than_memory(byte_count: float, latency_us: float, ceilings: Ceilings, threads: int) -> bool:
    """Whether the data fit into the last-level cache and move faster than the measured ceiling of memory."""
    is_faster = byte_count / latency_us / 1e3 > ceilings.memory_gbs * threads
    return is_faster and ceilings.cache_bytes < byte_count <= ceilings.last_level_bytes


def estimate_opportunities(bottleneck: str, latency_us: float, memory_us: float, compute_us: float, threads: int) -> Iterator[Opportunity]:
    """What the kernel loses above the roofline. The machine reports no counters, so the cause is a guess from the rates, and says so."""
    roofline_us = max(memory_us, compute_us)
    gain_us = round(latency_us - roofline_us, 4)
    if bottleneck == "overhead":
        summary = f"Estimate from the roofline ({roofline_us:.1f} of {latency_us:.1f} µs): set-up dominates a call this short."
        yield Opportunity(cause="launch", gain_us=gain_us, summary=f"{summary} Use one loop and no allocations.", card="small-sizes")
    elif gain_us >= SMALLEST_SHARE * latency_us:
        cause, card, move = ROOFLINE_CAUSES[bottleneck, compute_us > memory_us]
        limit = f"{threads} thread{'s' * (threads != 1)} at the measured ceilings would take {roofline_us:.1f} of {latency_us:.1f} µs"
        yield Opportunity(cause=cause, gain_us=gain_us, summary=f"Estimate from the roofline: {limit}. {move}", card=card)


def classify_bottleneck(latency_us: float, memory: float, compute: float, is_compute_heavy: bool) -> tuple[str, str]:
    """Returns one stable word for the bottleneck, and advice."""
    if max(memory, compute) > 1:
        return ("compute", LESS_WORK) if is_compute_heavy else ("memory", LESS_TRAFFIC)
    if latency_us < CALL_US and max(memory, compute) < 0.5:
        return "overhead", "Set-up dominates a call this short: use fewer allocations and branches, and one loop."
    if max(memory, compute) < 0.1:
        return (
            "latency",
            "Far below both ceilings: dependent operations, strided access or scalar code. Vectorise, break chains, reorder loops.",
        )
    if is_compute_heavy:
        return "compute", "Bound by arithmetic: vectorise fully, keep accumulators in registers, block for reuse, use fused multiply-add."
    return "memory", "Bound by memory: touch each byte once, fuse passes, read with unit stride."


def min_transfer_us(byte_count: float, ceilings: Ceilings, threads: int) -> float:
    """Returns a lower bound of the time for moving this many bytes."""
    bandwidth_gbs = ceilings.cache_gbs * FLOOR_MARGIN
    if byte_count > MEMORY_BYTES:
        bandwidth_gbs = min(bandwidth_gbs, ceilings.memory_gbs * MEMORY_MARGIN)
    return byte_count / (bandwidth_gbs * threads) / 1e3
