"""What baselines and clocks are called wherever a figure is shown: reports, prompts and memory say the same words."""

from __future__ import annotations

from collections.abc import Iterable

BASELINES = {"eager": "PyTorch eager", "compile": "torch.compile", "xla": "XLA", "torch": "PyTorch on the NPU"}
EXPLAINED = {"xla": "XLA's own program for the reference"}
CLOCKS = {
    "cpu": "CPU time per core",
    "wall": "wall time",
    "tpu": "time on a TPU",
    "gpu": "time on a GPU (events, cold caches)",
    "device (msprof)": "time on an Ascend NPU (msprof)",
    "synthetic": "synthetic (not measured)",
}
MEASURED = ("cpu", "wall", "tpu", "gpu", "device (msprof)")
ESTIMATE = "estimate"


def baseline_label(names: Iterable[str]) -> str:
    """What speed-ups are over: `XLA`; several when attempts were held against different ones, `the baseline` when none is known."""
    return ", ".join(BASELINES.get(name, name) for name in sorted({name for name in names if name})) or "the baseline"


def clock_label(names: Iterable[str]) -> str:
    """What times are; several when attempts were timed differently."""
    return ", ".join(single_clock_label(name) for name in sorted({name for name in names if name})) or "not measured"


def single_clock_label(name: str) -> str:
    """A clock that is not known can only be somebody's estimate."""
    return CLOCKS.get(name, name if name.startswith(ESTIMATE) else f"{ESTIMATE} ({name})")


def estimate_note(names: Iterable[str]) -> str:
    """The same for times no clock took, such as `estimate (schedule)`; nothing when all were measured."""
    made_up = [name for name in names if name and name not in MEASURED]
    return clock_label(made_up) if made_up else ""


def speedup_phrase(ratio: float | None, name: str) -> str:
    """`, 1.50x the speed of XLA`, or nothing where there is no baseline."""
    return f", {ratio:.2f}x the speed of {baseline_label([name])}" if ratio else ""
