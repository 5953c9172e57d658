"""Profiles an estimated kernel: its bottleneck, msprof's columns, and the lower bound of its task."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import NamedTuple

from evokernel.backends.ascendc.better_kernel import BetterKernel
from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.opportunities import KernelFacts, list_opportunities
from evokernel.backends.ascendc.simulator_report import LaunchReport
from evokernel.core.errors import CandidateError
from evokernel.core.labels import roofline_figures, roofline_sentence
from evokernel.core.records import Opportunity, Profile, Task

CLOCK = "estimate (simulator)"
RAW_POINTER_MESSAGE = (
    "the latency cannot be estimated, because the kernel accesses global or local memory through raw pointers: "
    "use GlobalTensor with DataCopy, or its GetValue and SetValue for single elements"
)
AIV = {"V": "vec", "S": "scalar", "MTE2": "mte2", "MTE3": "mte3"}
AIC = {"M": "cube", "S": "scalar", "MTE1": "mte1", "MTE2": "mte2", "FIX": "fixpipe"}
"""msprof's names of the pipes on the two kinds of core."""
BOTTLENECK_BY_PIPE = {"S": "scalar", "V": "vector", "MTE2": "memory", "MTE3": "store", "M": "cube", "MTE1": "cube", "FIX": "cube"}
PIPE_NAMES = {
    "S": "The scalar unit",
    "V": "The vector unit",
    "MTE2": "MTE2 (copies from global memory)",
    "MTE3": "MTE3 (copies to global memory)",
    "M": "The cube unit",
    "MTE1": "MTE1 (copies from L1 to L0)",
    "FIX": "The fixpipe (copies from L0C)",
}
HALF_TYPES = ("float16", "bfloat16")
SCALAR_GM_NOTE = " The cost of scalar access to global memory is not published: its share is an assumption."
HAZARD_TEXTS = {
    "W-GM-LINE": " Several cores write to one 64-byte line with SetValue. A device may lose an update: give each core complete lines.",
    "W-GM-SIZE": " SetGlobalBuffer declares more elements than the argument has: clamp the last core to the remaining elements.",
    "W-UB-FULL": " InitBuffer announces more local memory than the core has; an access to the excess would fail: use smaller buffers.",
    "W-LIB-TMP": " A library call gets a temporary buffer without memory, and happens to need none: pass an allocated one.",
    "W-OP-GRAPH": " A function that only graphs use rejects the call or infers other outputs: correct it before a graph uses the operator.",
    "W-LIB-OVERLAP": " A library call works in place, which its documentation does not allow: give it a separate destination.",
}
"""Hazards on a device that violate no rule, by the code of the simulator's note."""
BUSY_SHARE, ALTERNATING_SHARE, LOW_SHARE = 0.6, 0.85, 0.5
"""Busy share of a limiting pipe; combined share of pipes that alternate; share of cores below which there are too few blocks."""
SMALL_COPY_BYTES, EXCESS_TRAFFIC, IDLE_WAVE_SHARE = 16 << 10, 1.1, 0.15
"""Smaller copies are limited by their start; traffic above this multiple of the needed bytes is excessive; idle share of the last wave."""
NOTABLE_SHARE = 0.1
"""Share of time outside the cores that a profile mentions."""


class Diagnosis(NamedTuple):
    """The bottleneck as a word for retrieval, and a sentence for people and models."""

    bottleneck: str
    """scalar, vector, memory, store, cube, latency or overhead."""
    summary: str


BOTTLENECK_BY_CAUSE = {
    "few_cores": "latency", "uneven_work": "latency", "launch": "overhead", "library_start": "overhead", "synchronisation": "latency",
    "no_overlap": "latency", "small_copies": "memory", "unaligned_copies": "memory", "excess_traffic": "memory",
    "memory_bandwidth": "memory", "scalar_work": "scalar", "step_overhead": "vector", "vector_work": "vector", "cross_lane": "vector",
    "product_on_vector": "vector", "matrix_work": "cube",
}  # fmt: skip
DECISIVE_SHARE = 0.2
"""Share of the latency from which the largest opportunity decides the bottleneck."""


def profile_kernel(
    task: Task, report: LaunchReport, chip: Chip, better: BetterKernel | None = None, lines: Mapping[str, int] | None = None
) -> Profile:
    """Bottleneck, figures and opportunities of a kernel. Raises CandidateError if its latency cannot be estimated.

    `better` is the estimate of a well-written kernel, `lines` are the candidate's lines by the addresses of the report's sites.
    """
    refuse_forged_report(report, chip)
    if report.raw_pointers:
        raise CandidateError("no_latency", RAW_POINTER_MESSAGE)
    opportunities = list_opportunities(KernelFacts(task, report, chip, available_cores(report, chip), better, lines or {}))
    diagnosis, roofline = agree_with(opportunities, diagnose_bottleneck(task, report, chip), report, chip), roofline_us(task, chip)
    figures = {
        "writing_us": chip.minimum_transfer_us(sum(tensor.nbytes for tensor in task.signature.outputs)),
        "moving_us": chip.minimum_transfer_us(task.work.bytes),
        **overhead_figures(report, chip),
        **msprof_columns(report, chip),
        **roofline_figures(roofline, report.us),
    }
    notes = (
        overhead_note(report, chip)
        + imbalance_note(report, chip)
        + scalar_cost_note(report, chip)
        + hazard_notes(report)
        + execution_note(report)
    )
    summary = f"{diagnosis.summary}{notes} {roofline_sentence(roofline, report.us)}"
    rounded = {name: round(value, 4) for name, value in figures.items()}
    return Profile(bottleneck=diagnosis.bottleneck, summary=summary, figures=rounded, opportunities=opportunities)


def agree_with(opportunities: tuple[Opportunity, ...], diagnosis: Diagnosis, report: LaunchReport, chip: Chip) -> Diagnosis:
    """The diagnosis, or the largest opportunity in its place if that is large and names another bottleneck."""
    if not opportunities or opportunities[0].gain_us < DECISIVE_SHARE * report.us:
        return diagnosis
    bottleneck = BOTTLENECK_BY_CAUSE[opportunities[0].cause]
    if bottleneck == diagnosis.bottleneck:
        return diagnosis
    return Diagnosis(bottleneck, opportunities[0].summary + secondary_remark(report, chip))


def refuse_forged_report(report: LaunchReport, chip: Chip) -> None:
    """Refuse a report with inconsistent figures, which the simulator cannot have written."""
    fits = isclose(report.us, report.launches * chip.launch_us + chip.cycles_to_us(report.cycles), rel_tol=1e-6)
    if not fits or report.cycles * (chip.aiv_cores + chip.aic_cores) < report.end * (1 - 1e-6):
        raise CandidateError("forbidden", "the candidate wrote a forged simulator report (its times are inconsistent)")


def roofline_us(task: Task, chip: Chip) -> float:
    """Lower bound of the latency: the task's bytes and operations at the highest published rates of the chip.

    Data may be in L2 when a kernel starts, so the part that fits counts at L2 bandwidth. Operations count at the cube's peak rate for half,
    whatever the task's types are, because a kernel might use it.
    """
    peak = 2 * chip.cube_macs_half * chip.aic_cores * chip.ghz * 1e3
    return max(chip.minimum_transfer_us(task.work.bytes), task.work.flops / peak)


def overhead_figures(report: LaunchReport, chip: Chip) -> dict[str, float]:
    """Time in which the cores do no work of the kernel: the launch, the start of the cube, and the start of Matmul."""
    return {
        "launch_us": report.launches * chip.launch_us,
        "cube_start_us": chip.cycles_to_us(report.cube_start),
        "library_start_us": chip.cycles_to_us(report.library_start),
    }


def overhead_note(report: LaunchReport, chip: Chip) -> str:
    """The parts of the time outside the cores, if it is notable."""
    launch, cube, library = overhead_figures(report, chip).values()
    outside = launch + cube + library
    if outside < NOTABLE_SHARE * report.us:
        return ""
    parts = {
        f"{launch:.1f} µs of launch": launch,
        f"{cube:.1f} µs until the cube starts": cube,
        f"{library:.1f} µs until Matmul starts": library,
    }
    return f" Outside the cores: {', '.join(text for text, us in parts.items() if us)}."


def imbalance_note(report: LaunchReport, chip: Chip) -> str:
    """The slowest core, if it takes clearly longer than the average of its kind."""
    mean = report.mean_cycles(report.slowest_is_cube)
    if report.launches > 1 or report.slowest_cycles < (1 + NOTABLE_SHARE) * mean:
        return ""
    kind = "cube" if report.slowest_is_cube else "vector"
    slowest_us, mean_us = chip.cycles_to_us(report.slowest_cycles), chip.cycles_to_us(mean)
    return f" The slowest core, {kind} core {report.slowest_block}, takes {slowest_us:.1f} µs, an average one {mean_us:.1f} µs."


def msprof_columns(report: LaunchReport, chip: Chip) -> dict[str, float]:
    """Figures in msprof's columns (PipeUtilization as the mean over blocks, OpBasicInfo, Memory) and additional counters."""
    figures = {"Task Duration(us)": report.us, "Block Dim": float(report.block_dim)}
    for core, names in pipes_by_core(report).items():
        is_cube = core == "aic"
        took_us = chip.cycles_to_us(report.mean_cycles(is_cube))
        figures |= {f"{core}_time(us)": took_us, f"{core}_total_cycles": report.mean_cycles(is_cube)}
        for pipe, name in names.items():
            share = report.core_busy_share(pipe, is_cube)
            figures |= {f"{core}_{name}_time(us)": took_us * share, f"{core}_{name}_ratio": share}
    if report.slowest_cycles:
        figures["slowest_core_us"] = chip.cycles_to_us(report.slowest_cycles)
    figures |= {
        "GM_to_UB_datas(KB)": report.scale_to_all_blocks(report.mte2_bytes) / 1024,
        "UB_to_GM_datas(KB)": report.scale_to_all_blocks(report.mte3_bytes) / 1024,
        "ub_peak_kib": report.ub_peak / 1024,
        "copy_kib": mean_copy_bytes(report) / 1024,
        "vector_instructions": report.scale_to_all_blocks(report.vec_instr),
        "copies": report.scale_to_all_blocks(report.mte_instr),
        "scalar_accesses": report.scale_to_all_blocks(report.scalar_gm + report.scalar_ub),
        "cores_percent": 100 * min(1.0, report.block_dim / available_cores(report, chip)),
    }
    return figures


def pipes_by_core(report: LaunchReport) -> dict[str, dict[str, str]]:
    """Names of the pipes of each used kind of core."""
    uses_cube = report.macs > 0 or report.busy.get("M", 0.0) > 0
    uses_vector = not uses_cube or report.vec_instr > 0
    return ({"aic": AIC} if uses_cube else {}) | ({"aiv": AIV} if uses_vector else {})


def available_cores(report: LaunchReport, chip: Chip) -> int:
    """Number of cores for the kernel's blocks: with cube work, a cube core and its two vector cores count as one."""
    return chip.aic_cores if "aic" in pipes_by_core(report) else chip.aiv_cores


def mean_copy_bytes(report: LaunchReport) -> float:
    """Average size of a copy."""
    return (report.mte2_bytes + report.mte3_bytes) / report.mte_instr if report.mte_instr else 0.0


def diagnose_bottleneck(task: Task, report: LaunchReport, chip: Chip) -> Diagnosis:
    """Check in order: the launch, a busy scalar unit, idle cores, the busiest pipe; otherwise the pipes wait."""
    pipe = max(BOTTLENECK_BY_PIPE, key=report.busy_share)
    share, core_share = report.busy_share(pipe), report.block_dim / available_cores(report, chip)
    outside = sum(overhead_figures(report, chip).values())
    if outside > LOW_SHARE * report.us:
        advice = (
            "give the cube more work per launch, or compute short products on the vector cores"
            if report.cube_start
            else "fuse the remaining operations"
        )
        summary = f"{outside:.1f} of {report.us:.1f} µs are launch overhead: only fewer launches help, so {advice}."
        return Diagnosis("overhead", summary)
    if pipe == "S" and share > BUSY_SHARE:
        return Diagnosis("scalar", busy_sentence(pipe, report) + scalar_advice(report) + secondary_remark(report, chip))
    cores = available_cores(report, chip)
    best = min(report.best_cores or cores, cores)  # fewer than all where each block delays the start
    if core_share < LOW_SHARE and report.block_dim < best:
        summary = f"{report.block_dim} blocks use {core_share:.0%} of {cores} cores: call SetBlockDim({best})."
        return Diagnosis("latency", summary + secondary_remark(report, chip, blocks=False))
    if share > BUSY_SHARE:
        return Diagnosis(
            BOTTLENECK_BY_PIPE[pipe], busy_sentence(pipe, report) + pipe_advice(pipe, task, report) + secondary_remark(report, chip)
        )
    return Diagnosis("latency", describe_idle_pipes(report) + secondary_remark(report, chip))


def execution_note(report: LaunchReport) -> str:
    """Which blocks of the launch were not executed with data."""
    dry = f" The times come from {report.blocks_dry} blocks, executed without computing data." if report.blocks_dry else ""
    left = report.blocks - report.blocks_run
    return dry + (f" {left} of {report.blocks} blocks are extrapolated from the others." if left else "")


def scalar_cost_note(report: LaunchReport, chip: Chip) -> str:
    """A note for kernels that mostly wait for scalar access to global memory."""
    hits = report.scalar_gm - report.scalar_gm_miss
    cycles = report.scalar_gm_miss * chip.scalar_gm_miss + hits * chip.scalar_gm_hit
    return SCALAR_GM_NOTE if cycles > LOW_SHARE * report.end else ""


def hazard_notes(report: LaunchReport) -> str:
    """Warnings about hazards that the simulator tolerates and a device may not."""
    note_codes = {note.code for note in report.notes}
    return "".join(text for code, text in HAZARD_TEXTS.items() if code in note_codes)


def busy_sentence(pipe: str, report: LaunchReport) -> str:
    return f"{PIPE_NAMES[pipe]} is busy {report.busy_share(pipe):.0%} of the cores' time: "


def scalar_advice(report: LaunchReport) -> str:
    """Advice for a busy scalar unit, depending on its work."""
    single = report.scale_to_all_blocks(report.scalar_gm + report.scalar_ub)
    if report.scalar_gm + report.scalar_ub > report.vec_instr + report.mte_instr:
        return f"replace {single:.3g} scalar accesses (GetValue, SetValue) by DataCopy of complete tiles and vector instructions."
    return "use larger tiles, so that each call does more work, and hoist index arithmetic out of loops."


def cube_advice(task: Task) -> str:
    """Advice for a kernel whose cube is busy, by the types that it multiplies."""
    if any(tensor.dtype in HALF_TYPES for tensor in task.signature.inputs):
        return "keep L0 filled (double buffers in L1 and L0), and multiply in half."
    return "keep L0 filled (double buffers in L1 and L0); large products of floats are faster as three products of halves."


def pipe_advice(pipe: str, task: Task, report: LaunchReport) -> str:
    """Advice for the busiest pipe, depending on the traffic."""
    if pipe == "V":
        each = f" {report.vec_instr / report.blocks_run:.3g} instructions per block;"
        return f"reduce the vector work;{each} combine them (Axpy, Muls for Div by a constant), reuse exponentials, hoist loop invariants."
    if pipe not in ("MTE2", "MTE3"):
        return cube_advice(task)
    moved_bytes = report.scale_to_all_blocks(report.mte2_bytes + report.mte3_bytes)
    if 0 < mean_copy_bytes(report) < SMALL_COPY_BYTES:
        return f"copies of {mean_copy_bytes(report) / 1024:.3g} KiB are limited by their start-up time; use tiles of 16 KiB or more."
    if moved_bytes > EXCESS_TRAFFIC * task.work.bytes:
        return f"{moved_bytes / 1e6:.3g} MB are moved but only {task.work.bytes / 1e6:.3g} MB are needed; keep data in UB between passes."
    return "all moved bytes are needed, so there is little left to gain."


def describe_idle_pipes(report: LaunchReport) -> str:
    """Advice for a kernel without a busy pipe."""
    vector, reading, writing = (report.busy_share(pipe) for pipe in ("V", "MTE2", "MTE3"))
    shares = f"vector {vector:.0%}, MTE2 {reading:.0%}, MTE3 {writing:.0%}"
    if vector + reading + writing > ALTERNATING_SHARE:
        return f"Copies and vector work alternate ({shares}): give the queues two buffers, so that they overlap."
    return f"No pipe is busy most of the time ({shares}): give each block more work at a time (larger tiles, two buffers, fewer barriers)."


def secondary_remark(report: LaunchReport, chip: Chip, blocks: bool = True) -> str:
    """A further observation, if there is one."""
    size = available_cores(report, chip)
    waves = -(-report.block_dim // size)
    if blocks and waves > 1 and 1 - report.block_dim / (waves * size) > IDLE_WAVE_SHARE:
        return f" {report.block_dim} blocks need {waves} waves on {size} cores and the last wave is not full: use {size} blocks."
    if blocks and report.block_dim < min(report.best_cores or size, size):
        return f" Only {report.block_dim} of {size} cores have a block."
    if any("512" in note.code for note in report.notes):
        return " Copies start at addresses in global memory that are not multiples of 512 bytes, which the hardware reads more slowly."
    return ""
