"""Where the time of a kernel goes that was measured, or simulated: the twin's words for what the profiler's columns say."""

from __future__ import annotations

from evokernel.backends.ascendc.cann.profiler import Measured
from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.profile import AIC, AIV, BUSY, CALLED, FEW, IN_TURN, SPARE, WORDS, Diagnosis, roofline_us
from evokernel.core.records import Profile, Task

SIMULATED = {"scalar": "S", "vector": "V", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3", "cube": "M", "fixpipe": "FIX"}
"""Pipes, as the simulator calls them."""
ADVICE = {
    "S": "use larger tiles, so that fewer calls do more work each, no single numbers, and index arithmetic outside of loops.",
    "V": "do less vector work: combine instructions, share exponentials, hoist what does not change.",
    "MTE2": "read less, in larger pieces (16 KiB or more), and keep data in UB between passes.",
    "MTE3": "write less, in larger pieces (16 KiB or more), and keep data in UB between passes.",
}
CUBE_ADVICE = "keep L0 filled (double buffers in L1 and L0), multiply in half where the tolerance allows."


def profile(task: Task, measured: Measured, chip: Chip) -> Profile:
    """Bottleneck and figures; the profiler's own columns under their own names."""
    found, needed = diagnose(task, measured, chip), roofline_us(task, chip)
    figures = {
        "writing_us": chip.least_us(sum(tensor.nbytes for tensor in task.signature.outputs)),
        "moving_us": chip.least_us(task.work.bytes),
        "roofline_us": needed,
        "Task Duration(us)": measured.us,
        **({"Block Dim": float(measured.block_dim)} if measured.block_dim is not None else {}),
        **({"Current Freq": measured.frequency} if measured.frequency is not None else {}),
        **measured.figures,
        **({"share_of_roofline": needed / measured.us} if measured.us > 0 else {}),
    }
    summary = f"{found.summary} The roofline allows {needed:.1f} of {measured.us:.1f} µs."
    return Profile(bottleneck=found.bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def shares(measured: Measured, chip: Chip) -> dict[str, float]:
    """Of the time that a pipe is busy, as far as it was reported; where both kinds of core tell, of the busier."""
    found: dict[str, float] = {}
    for core, pipes in (("aiv", AIV), ("aic", AIC)):
        for pipe, name in pipes.items():
            ratio = measured.figures.get(f"{core}_{name}_ratio")
            if ratio is not None:
                found[pipe] = max(found.get(pipe, 0.0), ratio)
    for name, pipe in SIMULATED.items():
        cycles = measured.figures.get(f"{name}_cycles")
        if cycles is not None and measured.us > 0:
            found[pipe] = min(1.0, chip.us(cycles) / measured.us)
    return found


def diagnose(task: Task, measured: Measured, chip: Chip) -> Diagnosis:
    """A busy scalar unit first, then idle cores, then the busiest pipe; what is left is waiting. A launch costs nothing here."""
    busy = shares(measured, chip)
    if not busy:
        return Diagnosis("latency", "The profiler does not report what the pipes do.")
    pipe = max(busy, key=lambda one: busy[one])
    told = f"{CALLED[pipe]} is busy {busy[pipe]:.0%} of {measured.us:.1f} µs: "
    cores = chip.aic_cores if busy.get("M") else chip.aiv_cores
    if pipe == "S" and busy[pipe] > BUSY:
        return Diagnosis(WORDS[pipe], told + ADVICE[pipe])
    if measured.block_dim is not None and measured.block_dim < FEW * cores:
        used = f"{measured.block_dim} blocks keep {measured.block_dim / cores:.0%} of {cores} cores at work"
        return Diagnosis("latency", f"{used}: SetBlockDim to the number of cores.")
    if busy[pipe] > BUSY:
        return Diagnosis(WORDS[pipe], told + (spared(pipe, task, measured) or ADVICE.get(pipe, CUBE_ADVICE)))
    return Diagnosis("latency", waiting(busy))


def spared(pipe: str, task: Task, measured: Measured) -> str:
    """What follows from the traffic, where it was reported: a mean over blocks."""
    names = ("GM_to_UB_datas(KB)", "UB_to_GM_datas(KB)")
    if pipe not in ("MTE2", "MTE3") or measured.block_dim is None or not all(name in measured.figures for name in names):
        return ""
    moved = 1024 * measured.block_dim * sum(measured.figures[name] for name in names)
    if moved > SPARE * task.work.bytes:
        return f"{moved / 1e6:.3g} MB are moved and {task.work.bytes / 1e6:.3g} needed; keep data in UB between passes."
    return "no byte is moved that could be spared, so little is left to gain but larger copies."


def waiting(busy: dict[str, float]) -> str:
    """When no pipe is busy for long."""
    told = ", ".join(f"{name} {busy[pipe]:.0%}" for pipe, name in (("V", "vector"), ("MTE2", "MTE2"), ("MTE3", "MTE3")) if pipe in busy)
    if sum(busy.get(pipe, 0.0) for pipe in ("V", "MTE2", "MTE3")) > IN_TURN:
        return f"Copies and vector work take turns ({told}): give the queues two buffers, so that they overlap."
    return f"No pipe is busy for long ({told}): give each block more to do at a time (larger tiles, two buffers, fewer barriers)."
