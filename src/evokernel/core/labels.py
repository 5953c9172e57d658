"""Display names of baselines and clocks, shared by reports, prompts and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

BASELINES = {"eager": "PyTorch eager", "compile": "torch.compile", "xla": "XLA", "torch": "PyTorch on the NPU"}
BASELINE_DETAILS = {"xla": "XLA's own program for the reference"}
CLOCKS = {
    "cpu": "CPU time per core",
    "wall": "wall time",
    "tpu": "time on a TPU",
    "gpu": "time on a GPU (events, cold caches)",
    "device (msprof)": "time on an Ascend NPU (msprof)",
    "synthetic": "synthetic (not measured)",
}
MEASURED_CLOCKS = ("cpu", "wall", "tpu", "gpu", "device (msprof)")
ESTIMATE_PREFIX = "estimate"


def baseline_label(names: Iterable[str]) -> str:
    """Return the names of baselines for display: `XLA`; several if attempts have different baselines, `the baseline` if none is known."""
    return ", ".join(BASELINES.get(name, name) for name in sorted({name for name in names if name})) or "the baseline"


def clock_label(names: Iterable[str]) -> str:
    """Return the names of clocks for display; several if attempts were timed differently."""
    return ", ".join(single_clock_label(name) for name in sorted({name for name in names if name})) or "not measured"


def single_clock_label(name: str) -> str:
    """Return the name of one clock; an unknown clock is an estimate."""
    return CLOCKS.get(name, name if name.startswith(ESTIMATE_PREFIX) else f"{ESTIMATE_PREFIX} ({name})")


def estimate_note(names: Iterable[str]) -> str:
    """Return the names of all estimates, such as `estimate (schedule)`; an empty text if all times were measured."""
    estimates = [name for name in names if name and name not in MEASURED_CLOCKS]
    return clock_label(estimates) if estimates else ""


def speedup_phrase(ratio: float | None, name: str) -> str:
    """Return `, 1.50x the speed of XLA`, or an empty text if there is no baseline."""
    return f", {ratio:.2f}x the speed of {baseline_label([name])}" if ratio else ""


def roofline_figures(floor_us: float, latency_us: float) -> dict[str, float]:
    """Return the lower bound of a latency and its share; nothing if a kernel is faster: it needs less work than the reference."""
    if latency_us <= 0 or latency_us < floor_us:
        return {}
    return {"roofline_us": floor_us, "share_of_roofline": floor_us / latency_us}


def roofline_sentence(floor_us: float, latency_us: float) -> str:
    """Say how far a latency is from its lower bound, or that the bound does not hold for this kernel."""
    if latency_us < floor_us:
        return f"The reference's operations and bytes take {floor_us:.1f} µs at peak rates; this kernel needs fewer ({latency_us:.1f} µs)."
    return f"The roofline allows {floor_us:.1f} of {latency_us:.1f} µs."


def format_setting(setting: Mapping[str, int | float]) -> str:
    """`TILE = 64, DEPTH = 2`: the values of tunables."""
    return ", ".join(f"{name} = {value}" for name, value in setting.items())


def format_count(count: int, noun: str) -> str:
    """`1 run`, `2 runs`: a count with its noun, which forms its plural with -s."""
    return f"{count} {noun}{'s' * (count != 1)}"


def format_attempt(attempt_id: str) -> str:
    """`starter/softmax attempt 4` for the id `starter/softmax/3`: people count attempts from 1, ids count from 0."""
    task, _, number = attempt_id.rpartition("/")
    return f"{task} attempt {int(number) + 1}" if task and number.isdecimal() else attempt_id
