"""What bounds a timed kernel: counted bytes and operations against what the device was measured to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.backends.gpu import ncu
from evokernel.core.records import Profile, Task
from evokernel.core.statistics import quantile

NARROW = {"float16": "float16_tflops", "bfloat16": "bfloat16_tflops"}
FASTER = 1.15
"""What a better way to move bytes than the measured one may gain."""
CACHE_BYTES = 32 << 20
"""What may stay in the second-level cache from one kernel of a call to the next."""


def profile(
    task: Task,
    samples_us: Sequence[float],
    warm_us: float,
    ceilings: Mapping[str, float],
    counted: Mapping[str, float],
    noted: str,
) -> Profile:
    """The nearer of the two ceilings names the bottleneck; far below both, the kernel waits rather than works."""
    latency_us = quantile(samples_us, 0.25)
    dtypes = {tensor.dtype for tensor in (*task.signature.inputs, *task.signature.params)}
    tflops = ceilings[next((NARROW[dtype] for dtype in dtypes if dtype in NARROW), "tf32_tflops")]
    gbs = ceilings["copy_gbs"]
    memory_us, compute_us = task.work.bytes / gbs / 1e3, task.work.flops / tflops / 1e6
    written = sum(tensor.nbytes for tensor in task.signature.outputs)
    figures = {
        "achieved_gbs": task.work.bytes / latency_us / 1e3,
        "achieved_gflops": task.work.flops / latency_us / 1e3,
        "memory_share": memory_us / latency_us,
        "compute_share": compute_us / latency_us,
        "ceiling_gbs": gbs,
        "ceiling_gflops": tflops * 1e3,
        "roofline_us": max(memory_us, compute_us),
        "warm_us": warm_us,
        "launch_us": ceilings["launch_us"],
        "writing_us": least_us(written, max(gbs, ceilings["write_gbs"]), ceilings),
        "moving_us": least_us(task.work.bytes, gbs, ceilings),
    }
    bottleneck, advice = judge(latency_us, figures, compute_us > memory_us)
    reached = f"{figures['achieved_gbs']:.0f} GB/s ({figures['memory_share']:.0%} of {gbs:.0f})"
    computed = f"{figures['achieved_gflops'] / 1e3:.2f} TFLOP/s ({figures['compute_share']:.0%} of {tflops:.0f})"
    allowed = f"the roofline allows {figures['roofline_us']:.1f} of {latency_us:.1f} µs (warm {warm_us:.1f})"
    rounded = {name: round(value, 4) for name, value in {**figures, **counted}.items()}
    seen = ncu.advice(counted, task.work.bytes) if counted else f"(No counters: {noted}.)" if noted else ""
    summary = f"{reached} and {computed}; {allowed}. {seen or advice}"
    return Profile(bottleneck=bottleneck, summary=summary, figures=rounded)


def least_us(moved: float, gbs: float, ceilings: Mapping[str, float]) -> float:
    """No kernel moves so many bytes to or from memory faster; what fits into the cache may still be there when the clock stops."""
    return max(0.0, moved - CACHE_BYTES) / (gbs * FASTER) / 1e3


def judge(latency_us: float, figures: Mapping[str, float], heavy: bool) -> tuple[str, str]:
    """One stable word and what to try."""
    memory, compute = figures["memory_share"], figures["compute_share"]
    if latency_us < 3 * figures["launch_us"] and max(memory, compute) < 0.5:
        return "overhead", "A call this short is mostly its launches: fuse what is left to fuse into one kernel."
    if max(memory, compute) < 0.15:
        return (
            "latency",
            "Far below both ceilings: too few warps in flight, uncoalesced or dependent accesses, blocks that wait; widen loads.",
        )
    if heavy:
        return (
            "compute",
            "Bound by arithmetic: use the matrix units, keep tiles in shared memory and registers, overlap copies with products.",
        )
    return "memory", "Bound by memory: touch each byte once, load 16 bytes per thread, fuse passes."
