"""Names the bottleneck of an estimated program, with the figures and a recommendation."""

from __future__ import annotations

from typing import NamedTuple

from evokernel.backends.pallas.schedule.module_estimate import Estimate

SATURATED, STRAINED, BUSY = 0.85, 0.7, 0.6
"""Thresholds for the share of time in which a channel or unit is busy."""
MANY_WAITS, SOME_WAITS = 0.4, 0.3
SHORT_STEP_CYCLES, MANY_STEPS = 1000, 16
FEW_STEPS, LARGE_TRANSFER = 8, 256 << 10
SPILLING = 0.3
NEEDED_BYTES_MARGIN = 1.03
ADVICE = {
    "hbm": "move fewer bytes (fuse passes, larger blocks where inputs are read again, intermediates in VMEM, narrower types)",
    "dma_latency": "use larger blocks or more buffers",
    "mxu": "only fewer passes help (bfloat16 operands where the tolerance allows, no product computed twice)",
    "vpu": "do less elementwise work (hoist loop-invariant values, use cheaper forms, compute sums of products on the MXU)",
    "xlu": "combine complete tiles elementwise first and reduce across lanes once at the end; avoid transposes and lane shuffles",
    "eup": "call fewer transcendental functions (hoist them, share exponentials, multiply by a reciprocal)",
    "load_store": "keep values in registers (fuse passes over the block, work on slices that fit, avoid masked and strided stores)",
    "spills": "process smaller slices of the block in a loop, so that live values fit into the registers",
    "scalar": "simplify index arithmetic and unroll short loops",
    "step_overhead": "use larger blocks, so that fewer steps do more work each",
    "schedule": "give every step more independent work (larger blocks, unrolled loops, several accumulators)",
}
UNIT_BOTTLENECKS = {"mxu": "mxu", "xlu": "xlu", "vpu": "vpu", "eup": "eup", "load": "load_store", "store": "load_store", "scalar": "scalar"}
UNIT_LABELS = {
    "mxu": "the MXU",
    "xlu": "the XLU (reductions and moves across lanes)",
    "vpu": "the VPU (elementwise arithmetic)",
    "eup": "the EUP (transcendental functions)",
    "load": "the vector load unit",
    "store": "the vector store unit",
    "scalar": "the scalar core",
}


class Diagnosis(NamedTuple):
    """The bottleneck as a keyword, and a summary for prompts and reports."""

    bottleneck: str
    """One of the keys of ADVICE."""
    summary: str


def diagnose(estimate: Estimate, needed_bytes: float = 0.0) -> Diagnosis:
    """Diagnoses an estimate. `needed_bytes` is the minimum traffic of the task."""
    bottleneck = classify_bottleneck(estimate)
    advice = ADVICE[bottleneck]
    if bottleneck == "dma_latency" and (estimate.mean_transfer_bytes or 0) > LARGE_TRANSFER:
        advice = "use more blocks, so that transfers overlap with work" if estimate.steps < FEW_STEPS else "start transfers earlier"
    if bottleneck == "hbm" and estimate.hbm_share > SATURATED and estimate.hbm_bytes <= needed_bytes * NEEDED_BYTES_MARGIN:
        advice = "the kernel already moves only the minimum number of bytes, so little can be gained"
    return Diagnosis(bottleneck, f"{describe_bottleneck(bottleneck, estimate)}: {advice}.{extra_remark(bottleneck, estimate)}")


def classify_bottleneck(estimate: Estimate) -> str:
    """The keyword of the bottleneck: HBM first, then waiting for transfers, then the busiest unit; otherwise latency of the schedule."""
    unit, share = busiest_unit(estimate)
    if estimate.hbm_share > max(SATURATED, share):
        return "hbm"
    if estimate.dma_wait_share > MANY_WAITS:
        return "dma_latency"
    if estimate.hbm_share > max(STRAINED, share):
        return "hbm"
    if share > BUSY:
        if UNIT_BOTTLENECKS[unit] == "load_store" and estimate.spill_share > 0.5:
            return "spills"
        return "step_overhead" if unit == "scalar" and has_short_steps(estimate) else UNIT_BOTTLENECKS[unit]
    if estimate.unit_shares.get("spill", 0.0) > SPILLING:
        return "spills"
    if has_short_steps(estimate):
        return "step_overhead"
    return "dma_latency" if estimate.dma_wait_share > SOME_WAITS and estimate.hbm_share < BUSY else "schedule"


def busiest_unit(estimate: Estimate) -> tuple[str, float]:
    shares = {unit: estimate.unit_shares[unit] for unit in UNIT_BOTTLENECKS if unit in estimate.unit_shares}
    return max(shares.items(), key=lambda item: item[1], default=("scalar", 0.0))


def has_short_steps(estimate: Estimate) -> bool:
    """Whether there are many steps that each, without waits, take fewer cycles than a step needs to be efficient."""
    working = estimate.cycles * (1 - estimate.dma_wait_share)
    return estimate.steps >= MANY_STEPS and working / estimate.steps < SHORT_STEP_CYCLES


def describe_bottleneck(bottleneck: str, estimate: Estimate) -> str:
    """The figures that show the bottleneck."""
    unit, share = busiest_unit(estimate)
    if bottleneck == "hbm":
        return f"HBM is busy {estimate.hbm_share:.0%} of {estimate.latency_us:.1f} µs with {estimate.hbm_bytes / 1e6:.1f} MB"
    if bottleneck == "dma_latency":
        of_size = f" of {format_size(estimate.mean_transfer_bytes / 1024)} KiB" if estimate.mean_transfer_bytes else ""
        return (
            f"The kernel waits {estimate.dma_wait_share:.0%} of the time for transfers{of_size} while HBM is busy {estimate.hbm_share:.0%}"
        )
    if bottleneck == "spills":
        return f"{estimate.spill_share:.0%} of vector loads and stores are register spills ({estimate.spills} out, {estimate.fills} back)"
    if bottleneck == "step_overhead":
        return (
            f"{estimate.steps} steps of {estimate.cycles / estimate.steps:.0f} cycles, and {UNIT_LABELS[unit]} is busiest with {share:.0%}"
        )
    if bottleneck == "schedule":
        shares = f"{UNIT_LABELS[unit]} {share:.0%}, HBM {estimate.hbm_share:.0%}"
        return f"No unit is busy for long ({shares}) because operations wait for the results of others"
    return f"{UNIT_LABELS[unit][0].upper()}{UNIT_LABELS[unit][1:]} is busy {share:.0%} of {estimate.latency_us:.1f} µs"


def format_size(size: float) -> str:
    return f"{size:.0f}" if size >= 100 else f"{size:.3g}"


def extra_remark(bottleneck: str, estimate: Estimate) -> str:
    """A second observation, such as register spills or waits; may be empty."""
    if bottleneck in ("vpu", "load_store", "schedule", "xlu", "eup") and estimate.spill_share > SPILLING:
        return f" {estimate.spill_share:.0%} of vector loads and stores are register spills."
    if bottleneck in ("mxu", "vpu", "schedule", "step_overhead") and estimate.dma_wait_share > 0.15:
        return f" Transfers add {estimate.dma_wait_share:.0%} of waiting."
    return ""
