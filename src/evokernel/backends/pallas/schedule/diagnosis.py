"""Names what bounds an estimated program, with the figures that say so and what follows from them."""

from __future__ import annotations

from typing import NamedTuple

from evokernel.backends.pallas.schedule.module import Estimate

SATURATED, STRAINED, BUSY = 0.85, 0.7, 0.6
"""Shares of the time a channel or unit is busy."""
MANY_WAITS, SOME_WAITS = 0.4, 0.3
SHORT_STEP_CYCLES, MANY_STEPS = 1000, 16
FEW_STEPS, LARGE_TRANSFER = 8, 256 << 10
SPILLING = 0.3
SPARE = 1.03
ADVICE = {
    "hbm": "move fewer bytes (fuse passes, larger blocks where inputs are read again, intermediates in VMEM, narrower types)",
    "dma_latency": "use larger blocks or more buffers",
    "mxu": "only fewer passes help (bfloat16 operands where the tolerance allows, no product computed twice)",
    "vpu": "do less elementwise work (hoist what does not change, use cheaper forms, leave sums of products to the MXU)",
    "xlu": "combine whole tiles elementwise first and reduce across lanes once at the end; avoid transposes and lane shuffles",
    "eup": "call fewer transcendental functions (hoist them, share exponentials, multiply by a reciprocal)",
    "load_store": "keep values in registers (fuse passes over the block, work on slices that fit, avoid masked and strided stores)",
    "spills": "work on smaller slices of the block in a loop, so that what is live fits the registers",
    "scalar": "simplify index arithmetic and unroll short loops",
    "step_overhead": "use larger blocks, so that fewer steps do more work each",
    "schedule": "give every step more independent work (larger blocks, unrolled loops, several accumulators)",
}
UNITS = {"mxu": "mxu", "xlu": "xlu", "vpu": "vpu", "eup": "eup", "load": "load_store", "store": "load_store", "scalar": "scalar"}
CALLED = {
    "mxu": "the MXU",
    "xlu": "the XLU (reductions and moves across lanes)",
    "vpu": "the VPU (elementwise arithmetic)",
    "eup": "the EUP (transcendental functions)",
    "load": "the vector load unit",
    "store": "the vector store unit",
    "scalar": "the scalar core",
}


class Diagnosis(NamedTuple):
    """What a context can match, and what a reader is told."""

    bottleneck: str
    """One of the keys of ADVICE."""
    summary: str


def diagnose(estimate: Estimate, needed_bytes: float = 0.0) -> Diagnosis:
    """Memory first, then waiting, then the busiest unit; what is left is latency. `needed_bytes`: what the task cannot do without."""
    bottleneck = bound(estimate)
    advice = ADVICE[bottleneck]
    if bottleneck == "dma_latency" and (estimate.transfer_bytes or 0) > LARGE_TRANSFER:
        advice = "use more blocks, so that transfers overlap with work" if estimate.steps < FEW_STEPS else "start transfers earlier"
    if bottleneck == "hbm" and estimate.hbm_share > SATURATED and estimate.hbm_bytes <= needed_bytes * SPARE:
        advice = "no byte is moved that could be spared, so little is left to gain"
    return Diagnosis(bottleneck, f"{sentence(bottleneck, estimate)}: {advice}.{remark(bottleneck, estimate)}")


def bound(estimate: Estimate) -> str:
    """The stable word."""
    unit, share = busiest(estimate)
    if estimate.hbm_share > max(SATURATED, share):
        return "hbm"
    if estimate.dma_wait > MANY_WAITS:
        return "dma_latency"
    if estimate.hbm_share > max(STRAINED, share):
        return "hbm"
    if share > BUSY:
        if UNITS[unit] == "load_store" and estimate.spill_share > 0.5:
            return "spills"
        return "step_overhead" if unit == "scalar" and short_steps(estimate) else UNITS[unit]
    if estimate.units.get("spill", 0.0) > SPILLING:
        return "spills"
    if short_steps(estimate):
        return "step_overhead"
    return "dma_latency" if estimate.dma_wait > SOME_WAITS and estimate.hbm_share < BUSY else "schedule"


def busiest(estimate: Estimate) -> tuple[str, float]:
    shares = {unit: estimate.units[unit] for unit in UNITS if unit in estimate.units}
    return max(shares.items(), key=lambda item: item[1], default=("scalar", 0.0))


def short_steps(estimate: Estimate) -> bool:
    """Many iterations that, waits aside, are over in less than it takes to set one up well."""
    working = estimate.cycles * (1 - estimate.dma_wait)
    return estimate.steps >= MANY_STEPS and working / estimate.steps < SHORT_STEP_CYCLES


def sentence(bottleneck: str, estimate: Estimate) -> str:
    """The figures behind the word."""
    unit, share = busiest(estimate)
    if bottleneck == "hbm":
        return f"HBM is busy {estimate.hbm_share:.0%} of {estimate.us:.1f} µs with {estimate.hbm_bytes / 1e6:.1f} MB"
    if bottleneck == "dma_latency":
        of_size = f" of {rounded(estimate.transfer_bytes / 1024)} KiB" if estimate.transfer_bytes else ""
        return f"Waits {estimate.dma_wait:.0%} of the time on transfers{of_size} while HBM is busy {estimate.hbm_share:.0%}"
    if bottleneck == "spills":
        return f"{estimate.spill_share:.0%} of vector loads and stores are register spills ({estimate.spills} out, {estimate.fills} back)"
    if bottleneck == "step_overhead":
        return f"{estimate.steps} steps of {estimate.cycles / estimate.steps:.0f} cycles, and {CALLED[unit]} is busiest with {share:.0%}"
    if bottleneck == "schedule":
        return f"No unit is busy for long ({CALLED[unit]} {share:.0%}, HBM {estimate.hbm_share:.0%}) because operations wait for each other"
    return f"{CALLED[unit][0].upper()}{CALLED[unit][1:]} is busy {share:.0%} of {estimate.us:.1f} µs"


def rounded(size: float) -> str:
    return f"{size:.0f}" if size >= 100 else f"{size:.3g}"


def remark(bottleneck: str, estimate: Estimate) -> str:
    """A second thing worth knowing."""
    if bottleneck in ("vpu", "load_store", "schedule", "xlu", "eup") and estimate.spill_share > SPILLING:
        return f" {estimate.spill_share:.0%} of vector loads and stores are register spills."
    if bottleneck in ("mxu", "vpu", "schedule", "step_overhead") and estimate.dma_wait > 0.15:
        return f" Transfers add {estimate.dma_wait:.0%} of waiting."
    return ""
