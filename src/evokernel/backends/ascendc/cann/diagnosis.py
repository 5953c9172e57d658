"""Diagnoses the bottleneck of a kernel from the profiler's columns, or from CANN's simulator."""

from __future__ import annotations

from evokernel.backends.ascendc.cann.profiler import Measurement
from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.profile import (
    AIC,
    AIV,
    ALTERNATING_SHARE,
    BOTTLENECK_BY_PIPE,
    BUSY_SHARE,
    EXCESS_TRAFFIC,
    LOW_SHARE,
    PIPE_NAMES,
    Diagnosis,
    cube_advice,
    roofline_us,
)
from evokernel.core.labels import roofline_figures, roofline_sentence
from evokernel.core.records import Profile, Task

SIMULATOR_PIPES = {"scalar": "S", "vector": "V", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3", "cube": "M", "fixpipe": "FIX"}
"""Names of the pipes in CANN's simulator."""
ADVICE = {
    "S": "use larger tiles, so that each call does more work, avoid scalar accesses, and hoist index arithmetic out of loops.",
    "V": "reduce the vector work: combine instructions, reuse exponentials, hoist loop invariants.",
    "MTE2": "read less, in larger pieces (16 KiB or more), and keep data in UB between passes.",
    "MTE3": "write less, in larger pieces (16 KiB or more), and keep data in UB between passes.",
}


def profile_measurement(task: Task, measurement: Measurement, chip: Chip) -> Profile:
    """Bottleneck and figures of a measured kernel, with the profiler's own column names."""
    diagnosis, roofline = diagnose_bottleneck(task, measurement, chip), roofline_us(task, chip)
    figures = {
        "writing_us": chip.minimum_transfer_us(sum(tensor.nbytes for tensor in task.signature.outputs)),
        "moving_us": chip.minimum_transfer_us(task.work.bytes),
        "Task Duration(us)": measurement.us,
        **({"Block Dim": float(measurement.block_dim)} if measurement.block_dim is not None else {}),
        **({"Current Freq": measurement.frequency} if measurement.frequency is not None else {}),
        **measurement.figures,
        **roofline_figures(roofline, measurement.us),
    }
    summary = f"{diagnosis.summary} {roofline_sentence(roofline, measurement.us)}"
    return Profile(bottleneck=diagnosis.bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def busy_shares(measurement: Measurement, chip: Chip) -> dict[str, float]:
    """Busy share of each reported pipe; the larger one if both kinds of core report it."""
    shares: dict[str, float] = {}
    for core, pipes in (("aiv", AIV), ("aic", AIC)):
        for pipe, name in pipes.items():
            ratio = measurement.figures.get(f"{core}_{name}_ratio")
            if ratio is not None:
                shares[pipe] = max(shares.get(pipe, 0.0), ratio)
    for name, pipe in SIMULATOR_PIPES.items():
        cycles = measurement.figures.get(f"{name}_cycles")
        if cycles is not None and measurement.us > 0:
            shares[pipe] = min(1.0, chip.cycles_to_us(cycles) / measurement.us)
    return shares


def diagnose_bottleneck(task: Task, measurement: Measurement, chip: Chip) -> Diagnosis:
    """Check in order: a busy scalar unit, idle cores, the busiest pipe; otherwise the pipes wait. The measurement excludes the launch."""
    busy = busy_shares(measurement, chip)
    if not busy:
        return Diagnosis("latency", "The profiler does not report what the pipes do.")
    pipe = max(busy, key=lambda one: busy[one])
    sentence = f"{PIPE_NAMES[pipe]} is busy {busy[pipe]:.0%} of {measurement.us:.1f} µs: "
    cores = chip.aic_cores if busy.get("M") else chip.aiv_cores
    if pipe == "S" and busy[pipe] > BUSY_SHARE:
        return Diagnosis(BOTTLENECK_BY_PIPE[pipe], sentence + ADVICE[pipe])
    if measurement.block_dim is not None and measurement.block_dim < LOW_SHARE * cores:
        usage = f"{measurement.block_dim} blocks use {measurement.block_dim / cores:.0%} of {cores} cores"
        return Diagnosis("latency", f"{usage}: call SetBlockDim with the number of cores.")
    if busy[pipe] > BUSY_SHARE:
        advice = traffic_advice(pipe, task, measurement) or ADVICE.get(pipe) or cube_advice(task)
        return Diagnosis(BOTTLENECK_BY_PIPE[pipe], sentence + advice)
    return Diagnosis("latency", describe_idle_pipes(busy))


def traffic_advice(pipe: str, task: Task, measurement: Measurement) -> str:
    """Advice that follows from the reported traffic, which is a mean over blocks."""
    names = ("GM_to_UB_datas(KB)", "UB_to_GM_datas(KB)")
    if pipe not in ("MTE2", "MTE3") or measurement.block_dim is None or not all(name in measurement.figures for name in names):
        return ""
    moved_bytes = 1024 * measurement.block_dim * sum(measurement.figures[name] for name in names)
    if moved_bytes > EXCESS_TRAFFIC * task.work.bytes:
        return f"{moved_bytes / 1e6:.3g} MB are moved but only {task.work.bytes / 1e6:.3g} MB are needed; keep data in UB between passes."
    return "all moved bytes are needed, so only larger copies can help."


def describe_idle_pipes(busy: dict[str, float]) -> str:
    """Advice for a kernel without a busy pipe."""
    shares = ", ".join(f"{name} {busy[pipe]:.0%}" for pipe, name in (("V", "vector"), ("MTE2", "MTE2"), ("MTE3", "MTE3")) if pipe in busy)
    if sum(busy.get(pipe, 0.0) for pipe in ("V", "MTE2", "MTE3")) > ALTERNATING_SHARE:
        return f"Copies and vector work alternate ({shares}): give the queues two buffers, so that they overlap."
    return f"No pipe is busy most of the time ({shares}): give each block more work at a time (larger tiles, two buffers, fewer barriers)."
