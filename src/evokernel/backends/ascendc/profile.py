"""Where the estimated time of a kernel goes, by the column names of msprof, next to what its task needs at least."""

from __future__ import annotations

from math import isclose
from typing import NamedTuple

from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.simulator_report import Report
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile, Task

CLOCK = "estimate (twin)"
UNSEEN = (
    "cost unknown: raw pointers to global or local memory bypass what is priced; "
    "use GlobalTensor with DataCopy, or its GetValue and SetValue for single numbers"
)
AIV = {"V": "vec", "S": "scalar", "MTE2": "mte2", "MTE3": "mte3"}
AIC = {"M": "cube", "S": "scalar", "MTE1": "mte1", "MTE2": "mte2", "FIX": "fixpipe"}
"""Pipes, as msprof calls them on the two kinds of core."""
WORDS = {"S": "scalar", "V": "vector", "MTE2": "memory", "MTE3": "store", "M": "cube", "MTE1": "cube", "FIX": "cube"}
CALLED = {
    "S": "The scalar unit",
    "V": "The vector unit",
    "MTE2": "MTE2 (copies from global memory)",
    "MTE3": "MTE3 (copies to global memory)",
    "M": "The cube unit",
    "MTE1": "MTE1 (copies from L1 to L0)",
    "FIX": "The fixpipe (copies from L0C)",
}
GUESSED = " Scalar access to global memory has no published cost: its share is a guess."
HAZARDS = {
    "W-GM-LINE": " Cores write into one 64-byte line with SetValue: on a device an update may be lost, so give each core whole lines.",
    "W-GM-SIZE": " SetGlobalBuffer announces more than the argument holds: clamp the last core's share to what is left.",
    "W-LIB-OVERLAP": " A library call works in place, which its documentation excludes: give it a destination of its own.",
}
"""What breaks no rule and may go wrong on a device, by the twin's notes."""
BUSY, IN_TURN, FEW = 0.6, 0.85, 0.5
"""A pipe that bounds a kernel; shares of two pipes that work in turn; share of the cores below which blocks are too few."""
SMALL_COPY, SPARE, WASTED = 16 << 10, 1.1, 0.15
"""Copies below this are bound by their start; traffic beyond this multiple of the needed bytes could be spared; idle share of a wave."""


class Diagnosis(NamedTuple):
    """What a context can match, and what a reader is told."""

    bottleneck: str
    """scalar, vector, memory, store, cube, latency or overhead."""
    summary: str


def profile(task: Task, report: Report, chip: Chip) -> Profile:
    """Bottleneck and figures of a priced kernel; CandidateError when its price is not known."""
    refuse_forged(report, chip)
    if report.raw_pointers:
        raise CandidateError("unpriced", UNSEEN)
    found, needed = diagnose(task, report, chip), roofline_us(task, chip)
    figures = {
        "writing_us": chip.least_us(sum(tensor.nbytes for tensor in task.signature.outputs)),
        "moving_us": chip.least_us(task.work.bytes),
        "roofline_us": needed,
        **columns(report, chip),
    }
    if report.us > 0:
        figures["share_of_roofline"] = needed / report.us
    summary = f"{found.summary}{doubt(report, chip)}{hazards(report)} The roofline allows {needed:.1f} of {report.us:.1f} µs."
    return Profile(bottleneck=found.bottleneck, summary=summary, figures={name: round(value, 4) for name, value in figures.items()})


def refuse_forged(report: Report, chip: Chip) -> None:
    """Figures that do not fit together were not written by the twin."""
    fits = isclose(report.us, report.launches * chip.launch_us + chip.us(report.cycles), rel_tol=1e-6)
    if not fits or report.cycles * (chip.aiv_cores + chip.aic_cores) < report.end * (1 - 1e-6):
        raise CandidateError("forbidden", "a report the twin did not write: its times do not fit together")


def roofline_us(task: Task, chip: Chip) -> float:
    """Counted bytes and operations at the highest ceilings claimed for the chip.

    Data may lie in L2 when a kernel starts, so as much of them as fits counts at its speed. Operations are held against the cube's peak for
    half whatever the task's types and kinds: a kernel may find a way to use it.
    """
    peak = 2 * chip.cube_macs_half * chip.aic_cores * chip.ghz * 1e3
    return max(chip.least_us(task.work.bytes), task.work.flops / peak)


def columns(report: Report, chip: Chip) -> dict[str, float]:
    """As msprof writes them: PipeUtilization as the mean of its rows, one per block; OpBasicInfo; Memory. Then a few counts of our own."""
    took_us = chip.us(report.end / report.ran)
    found = {"Task Duration(us)": report.us, "Block Dim": float(report.block_dim)}
    for core, called in on_cores(report).items():
        found |= {f"{core}_time(us)": took_us, f"{core}_total_cycles": report.end / report.ran}
        for pipe, name in called.items():
            found |= {f"{core}_{name}_time(us)": took_us * report.share(pipe), f"{core}_{name}_ratio": report.share(pipe)}
    found |= {
        "GM_to_UB_datas(KB)": report.whole(report.mte2_bytes) / 1024,
        "UB_to_GM_datas(KB)": report.whole(report.mte3_bytes) / 1024,
        "ub_peak_kib": report.ub_peak / 1024,
        "copy_kib": copy_bytes(report) / 1024,
        "vector_instructions": report.whole(report.vec_instr),
        "copies": report.whole(report.mte_instr),
        "scalar_accesses": report.whole(report.scalar_gm + report.scalar_ub),
        "cores_percent": 100 * min(1.0, report.block_dim / cores(report, chip)),
    }
    return found


def on_cores(report: Report) -> dict[str, dict[str, str]]:
    """The kinds of core that were used."""
    uses_cube = report.macs > 0 or report.busy.get("M", 0.0) > 0
    uses_vector = not uses_cube or report.vec_instr > 0
    return ({"aic": AIC} if uses_cube else {}) | ({"aiv": AIV} if uses_vector else {})


def cores(report: Report, chip: Chip) -> int:
    """Those the kernel's blocks could be spread over: where cube cores work, two vector cores belong to each."""
    return chip.aic_cores if "aic" in on_cores(report) else chip.aiv_cores


def copy_bytes(report: Report) -> float:
    """Of a copy, on average."""
    return (report.mte2_bytes + report.mte3_bytes) / report.mte_instr if report.mte_instr else 0.0


def diagnose(task: Task, report: Report, chip: Chip) -> Diagnosis:
    """The launch first, then a busy scalar unit, then idle cores, then the busiest pipe; what is left is waiting."""
    pipe = max(WORDS, key=report.share)
    share, used = report.share(pipe), report.block_dim / cores(report, chip)
    if chip.launch_us > FEW * report.us:
        summary = (
            f"{chip.launch_us:.1f} of {report.us:.1f} µs are the launch itself: only fewer launches help, so fuse what is left to fuse."
        )
        return Diagnosis("overhead", summary)
    if pipe == "S" and share > BUSY:
        return Diagnosis("scalar", busy(pipe, report) + scalar_advice(report) + remark(report, chip))
    if used < FEW:
        summary = f"{report.block_dim} blocks keep {used:.0%} of {cores(report, chip)} cores at work: SetBlockDim to the number of cores."
        return Diagnosis("latency", summary + remark(report, chip, blocks=False))
    if share > BUSY:
        return Diagnosis(WORDS[pipe], busy(pipe, report) + advice(pipe, task, report) + remark(report, chip))
    return Diagnosis("latency", waiting(report) + remark(report, chip))


def doubt(report: Report, chip: Chip) -> str:
    """Said of kernels that mostly wait for single numbers from global memory."""
    hits = report.scalar_gm - report.scalar_gm_miss
    cycles = report.scalar_gm_miss * chip.scalar_gm_miss + hits * chip.scalar_gm_hit
    return GUESSED if cycles > FEW * report.end else ""


def hazards(report: Report) -> str:
    """Said of kernels that pass here and need not on a device."""
    noted = {note.code for note in report.notes}
    return "".join(said for code, said in HAZARDS.items() if code in noted)


def busy(pipe: str, report: Report) -> str:
    return f"{CALLED[pipe]} is busy {report.share(pipe):.0%} of {report.us:.1f} µs: "


def scalar_advice(report: Report) -> str:
    """What keeps it busy decides what helps."""
    single = report.whole(report.scalar_gm + report.scalar_ub)
    if report.scalar_gm + report.scalar_ub > report.vec_instr + report.mte_instr:
        return f"replace {single:.3g} single accesses (GetValue, SetValue) by DataCopy of whole tiles and vector instructions on them."
    return "use larger tiles, so that fewer calls do more work each, and hoist index arithmetic out of loops."


def advice(pipe: str, task: Task, report: Report) -> str:
    """What follows from the busiest pipe and the traffic."""
    if pipe == "V":
        each = f" {report.vec_instr / report.ran:.3g} instructions a block;"
        return (
            f"do less vector work;{each} combine them (Axpy, Muls for Div by a constant), share exponentials, hoist what does not change."
        )
    if pipe not in ("MTE2", "MTE3"):
        return "keep L0 filled (double buffers in L1 and L0), multiply in half where the tolerance allows."
    moved = report.whole(report.mte2_bytes + report.mte3_bytes)
    if 0 < copy_bytes(report) < SMALL_COPY:
        return f"copies of {copy_bytes(report) / 1024:.3g} KiB are bound by their start; use larger tiles, of 16 KiB or more."
    if moved > SPARE * task.work.bytes:
        return f"{moved / 1e6:.3g} MB are moved and {task.work.bytes / 1e6:.3g} needed; keep data in UB between passes."
    return "no byte is moved that could be spared, so little is left to gain."


def waiting(report: Report) -> str:
    """When no pipe is busy for long."""
    vector, reading, writing = (report.share(pipe) for pipe in ("V", "MTE2", "MTE3"))
    shares = f"vector {vector:.0%}, MTE2 {reading:.0%}, MTE3 {writing:.0%}"
    if vector + reading + writing > IN_TURN:
        return f"Copies and vector work take turns ({shares}): give the queues two buffers, so that they overlap."
    return f"No pipe is busy for long ({shares}): give each block more to do at a time (larger tiles, two buffers, fewer barriers)."


def remark(report: Report, chip: Chip, blocks: bool = True) -> str:
    """A second thing worth knowing."""
    size = cores(report, chip)
    waves = -(-report.block_dim // size)
    if blocks and waves > 1 and 1 - report.block_dim / (waves * size) > WASTED:
        return f" {report.block_dim} blocks take {waves} waves on {size} cores and the last is not full: use {size} blocks."
    if blocks and report.block_dim < size:
        return f" Only {report.block_dim} of {size} cores have a block."
    if any("512" in note.code for note in report.notes):
        return " Copies start at addresses in global memory that are not multiples of 512 bytes, which the hardware reads more slowly."
    return ""
