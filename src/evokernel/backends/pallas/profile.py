"""Where the estimated time of a kernel goes, next to what its task needs at least."""

from __future__ import annotations

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.schedule import Estimate, diagnose
from evokernel.core.records import Profile, Task


def profile(task: Task, estimate: Estimate, chip: Chip) -> Profile:
    """Bottleneck and figures of a priced kernel; what the compiler did not report is left out."""
    found = diagnose(estimate, task.work.bytes / chip.cores)
    needed = roofline_us(task, chip)
    figures = {
        "writing_us": sum(tensor.nbytes for tensor in task.signature.outputs) / (chip.hbm_bytes_per_s * chip.cores) * 1e6,
        "moving_us": task.work.bytes / (chip.hbm_bytes_per_s * chip.cores) * 1e6,
        "roofline_us": needed,
        "hbm_mb": estimate.hbm_bytes / 1e6,
        "hbm_percent": 100 * estimate.hbm_share,
        "dma_wait_percent": 100 * estimate.dma_wait,
        **{f"{unit}_percent": 100 * share for unit, share in estimate.units.items()},
        "spills": float(estimate.spills),
        "fills": float(estimate.fills),
        "transfers": float(estimate.transfers),
        "steps": float(estimate.steps),
    }
    if estimate.us > 0:
        figures["share_of_roofline"] = needed / estimate.us
    if estimate.vmem_bytes is not None:
        figures["vmem_kib"] = estimate.vmem_bytes / 1024
    if estimate.transfer_bytes is not None:
        figures["transfer_kib"] = estimate.transfer_bytes / 1024
    summary = f"{found.summary} The roofline allows {needed:.1f} of {estimate.us:.1f} µs."
    return Profile(bottleneck=found.bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def roofline_us(task: Task, chip: Chip) -> float:
    """Counted bytes and operations at the published ceilings of the device.

    Operations are held against the bfloat16 peak whatever the task's types: float32 products of full precision take about six passes,
    but a kernel may need fewer within its tolerance.
    """
    return max(task.work.bytes / (chip.hbm_bytes_per_s * chip.cores), task.work.flops / (chip.peak_flops * chip.cores)) * 1e6
