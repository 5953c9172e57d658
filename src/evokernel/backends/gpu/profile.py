"""Finds the bottleneck of a timed kernel: compares its bytes and operations per second with the device's measured ceilings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evokernel.backends.gpu import ncu
from evokernel.backends.gpu.opportunities import find_opportunities
from evokernel.core.records import Profile, Task
from evokernel.core.statistics import quantile

NARROW = {"float16": "float16_tflops", "bfloat16": "bfloat16_tflops"}
FASTER = 1.15
"""Factor by which a kernel may move bytes faster than the benchmark."""
CACHE_BYTES = 32 << 20
"""Bytes that may stay in the L2 cache between the kernels of a call."""


def profile_kernel(
    task: Task,
    samples_us: Sequence[float],
    warm_us: float,
    ceilings: Mapping[str, float],
    counters: Mapping[str, float],
    note: str,
    cards: Sequence[str] = (),
) -> Profile:
    """Names the nearer of the two ceilings as the bottleneck; far below both, it is latency."""
    latency_us = quantile(samples_us, 0.25)
    dtypes = {tensor.dtype for tensor in (*task.signature.inputs, *task.signature.params)}
    tflops = ceilings[next((NARROW[dtype] for dtype in dtypes if dtype in NARROW), "tf32_tflops")]
    gbs = ceilings["copy_gbs"]
    memory_us, compute_us = task.work.bytes / gbs / 1e3, task.work.flops / tflops / 1e6
    output_bytes = sum(tensor.nbytes for tensor in task.signature.outputs)
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
        "writing_us": min_transfer_us(output_bytes, max(gbs, ceilings["write_gbs"]), ceilings),
        "moving_us": min_transfer_us(task.work.bytes, gbs, ceilings),
    }
    bottleneck, advice = classify_bottleneck(latency_us, figures, compute_us > memory_us)
    bandwidth_text = f"{figures['achieved_gbs']:.0f} GB/s ({figures['memory_share']:.0%} of {gbs:.0f})"
    compute_text = f"{figures['achieved_gflops'] / 1e3:.2f} TFLOP/s ({figures['compute_share']:.0%} of {tflops:.0f})"
    roofline_text = f"the roofline allows {figures['roofline_us']:.1f} of {latency_us:.1f} µs (warm {warm_us:.1f})"
    rounded_figures = {name: round(value, 4) for name, value in {**figures, **counters}.items()}
    counter_advice = ncu.advice_from_counters(counters, task.work.bytes) if counters else f"(No counters: {note}.)" if note else ""
    summary = f"{bandwidth_text} and {compute_text}; {roofline_text}. {counter_advice or advice}"
    rows = find_opportunities(task, latency_us, figures, counters, cards) if counters else ()
    return Profile(bottleneck=bottleneck, summary=summary, figures=rounded_figures, opportunities=rows)


def min_transfer_us(byte_count: float, gbs: float, ceilings: Mapping[str, float]) -> float:
    """Returns a lower bound of the time for moving this many bytes; data that fits into the cache may still be there at the end."""
    return max(0.0, byte_count - CACHE_BYTES) / (gbs * FASTER) / 1e3


def classify_bottleneck(latency_us: float, figures: Mapping[str, float], is_compute_heavy: bool) -> tuple[str, str]:
    """Returns one stable word for the bottleneck, and advice."""
    memory, compute = figures["memory_share"], figures["compute_share"]
    if latency_us < 3 * figures["launch_us"] and max(memory, compute) < 0.5:
        return "overhead", "Launches dominate a call this short: fuse the remaining work into one kernel."
    if max(memory, compute) < 0.15:
        return (
            "latency",
            "Far below both ceilings: too few warps in flight, uncoalesced or dependent accesses, waiting blocks. Widen loads.",
        )
    if is_compute_heavy:
        return (
            "compute",
            "Bound by arithmetic: use the tensor cores, keep tiles in shared memory and registers, overlap copies with products.",
        )
    return "memory", "Bound by memory: touch each byte once, load 16 bytes per thread, fuse passes."
