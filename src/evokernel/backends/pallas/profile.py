"""The profile of a kernel: its bottleneck, its figures, and the roofline of its task."""

from __future__ import annotations

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.opportunities import find_opportunities
from evokernel.backends.pallas.schedule import Analysis, Estimate, diagnose
from evokernel.core.labels import roofline_figures, roofline_sentence
from evokernel.core.records import Profile, Task


def profile_analysis(task: Task, analysis: Analysis, chip: Chip) -> Profile:
    """The profile with the opportunities that replays of the schedule give."""
    return make_profile(task, analysis.estimate, chip).model_copy(update={"opportunities": find_opportunities(task, analysis, chip)})


def make_profile(task: Task, estimate: Estimate, chip: Chip) -> Profile:
    """Bottleneck and figures of an estimated kernel; figures that the compiler did not report are omitted."""
    diagnosis = diagnose(estimate, task.work.bytes / chip.cores)
    minimum_us = roofline_us(task, chip)
    figures = {
        "writing_us": sum(tensor.nbytes for tensor in task.signature.outputs) / (chip.hbm_bytes_per_s * chip.cores) * 1e6,
        "moving_us": task.work.bytes / (chip.hbm_bytes_per_s * chip.cores) * 1e6,
        "hbm_mb": estimate.hbm_bytes / 1e6,
        "hbm_percent": 100 * estimate.hbm_share,
        "dma_wait_percent": 100 * estimate.dma_wait_share,
        **{f"{unit}_percent": 100 * share for unit, share in estimate.unit_shares.items()},
        "spills": float(estimate.spills),
        "fills": float(estimate.fills),
        "transfers": float(estimate.transfers),
        "steps": float(estimate.steps),
    }
    figures |= roofline_figures(minimum_us, estimate.latency_us)
    if estimate.vmem_bytes is not None:
        figures["vmem_kib"] = estimate.vmem_bytes / 1024
    if estimate.mean_transfer_bytes is not None:
        figures["transfer_kib"] = estimate.mean_transfer_bytes / 1024
    summary = f"{diagnosis.summary} {roofline_sentence(minimum_us, estimate.latency_us)}"
    return Profile(bottleneck=diagnosis.bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def roofline_us(task: Task, chip: Chip) -> float:
    """The minimum latency: the task's bytes and operations at the published peak rates of the device.

    Operations count at the bfloat16 peak for all dtypes: float32 products of full precision take about six passes, but a kernel may
    need fewer within its tolerance.
    """
    return max(task.work.bytes / (chip.hbm_bytes_per_s * chip.cores), task.work.flops / (chip.peak_flops * chip.cores)) * 1e6
