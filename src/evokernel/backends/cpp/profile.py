"""What bounds a timed kernel: counted bytes and operations against what this machine was measured to do."""

from __future__ import annotations

from evokernel.backends.cpp.ceilings import NOMINAL, Ceilings, measured
from evokernel.core.records import Outcome, Profile, Task

CALL_US = 5.0  # below this a call is mostly call
FLOOR_MARGIN = 4.0
MEMORY_BYTES, MEMORY_MARGIN = 64 << 20, 3.0
"""The memory ceiling was measured with so many bytes: who writes more finds no faster place for it. The margin is for better ways to write
than the benchmark's (zeros were written 1.2 times as fast) and for ceilings that were measured on a busy machine."""


def profile(compiler: str, flags: str, threads: int, task: Task, outcome: Outcome) -> Profile | None:
    """None when nothing was timed. A synthetic clock is held against nominal ceilings, so that equal runs are equal."""
    latency_us = outcome.latency_us
    if not latency_us:
        return None
    ceilings = NOMINAL if outcome.clock == "synthetic" else measured(compiler, flags)
    return diagnose(task, latency_us, ceilings, threads)


def diagnose(task: Task, latency_us: float, ceilings: Ceilings, threads: int = 1) -> Profile:
    """The nearer of the two ceilings names the bottleneck; far below both, the kernel waits rather than works."""
    bandwidth_gbs = ceilings.cache_gbs if task.work.bytes <= ceilings.cache_bytes else ceilings.memory_gbs
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
        "roofline_us": max(memory_us, compute_us),
        "writing_us": least_us(sum(tensor.nbytes for tensor in task.signature.outputs), ceilings, threads),
        "moving_us": least_us(task.work.bytes, ceilings, threads),
    }
    bottleneck, advice = judge(latency_us, memory, compute, compute_us > memory_us)
    reached = f"{achieved_gbs:.2f} GB/s ({memory:.0%} of {bandwidth_gbs * threads:.0f})"
    computed = f"{achieved_gflops:.2f} GFLOP/s ({compute:.0%} of {ceilings.gflops * threads:.0f})"
    allowed = f"the roofline allows {max(memory_us, compute_us):.1f} of {latency_us:.1f} µs"
    summary = f"{reached} and {computed}; {allowed}. {advice}"
    return Profile(bottleneck=bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def judge(latency_us: float, memory: float, compute: float, heavy: bool) -> tuple[str, str]:
    """One stable word and what to try."""
    if max(memory, compute) > 1.5:
        return ("compute" if heavy else "memory"), "Faster than the counted work allows: the kernel does less of it than the reference."
    if latency_us < CALL_US and max(memory, compute) < 0.5:
        return "overhead", "A call this short is mostly set-up: fewer allocations and branches, one loop."
    if max(memory, compute) < 0.1:
        return (
            "latency",
            "Far below both ceilings: dependent operations, strided access or scalar code; vectorise, break chains, reorder loops.",
        )
    if heavy:
        return "compute", "Bound by arithmetic: vectorise fully, keep accumulators in registers, block for reuse, use fused multiply-add."
    return "memory", "Bound by memory: touch each byte once, fuse passes, read with unit stride."


def least_us(moved: float, ceilings: Ceilings, threads: int) -> float:
    """No kernel moves so many bytes faster."""
    bandwidth_gbs = ceilings.cache_gbs * FLOOR_MARGIN
    if moved > MEMORY_BYTES:
        bandwidth_gbs = min(bandwidth_gbs, ceilings.memory_gbs * MEMORY_MARGIN)
    return moved / (bandwidth_gbs * threads) / 1e3
