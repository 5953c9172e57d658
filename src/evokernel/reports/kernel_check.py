"""Compares a kernel that was verified again with the kernel that a run recorded: is it still correct, and is it slower?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.labels import MEASURED_CLOCKS, baseline_label
from evokernel.core.records import Candidate, Outcome
from evokernel.core.state import MIN_UNPAIRED_GAIN
from evokernel.core.statistics import MIN_PAIRED_GAIN, is_significant, median_interval
from evokernel.reports import formatting

SAME_DEVICE_KEYS = ("cpu", "machine", "cores", "processor", "chip", "architecture", "gpu")
"""Entries of a run's environment that name the device. If one differs, latencies of two sessions are not comparable."""
Interval = tuple[float, float]


class Status(StrEnum):
    """The result for one kernel."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    """The verification could not be completed; nothing is known about the kernel."""


class RecordedKernel(NamedTuple):
    """The kernel of a run that another kernel is compared with."""

    attempt: str
    candidate: Candidate
    outcome: Outcome
    """Its re-evaluation if there is one."""


class Comparison(NamedTuple):
    """The latency of a kernel next to that of the recorded kernel."""

    slowdown: float | None = None
    """0.05 if the kernel is 5 % slower than the recorded one, negative if it is faster; None if they cannot be compared."""
    interval: Interval | None = None
    """95 % confidence interval of the slowdown; None for estimates, which do not vary, and if the two cannot be compared."""
    is_slower: bool = False
    """Whether the slowdown is above the limit by more than the noise."""
    method: str = ""
    """How the two were compared; without a slowdown, why they were not."""
    measurements: int = 1
    """How often the kernel was measured; the figures are those of the last measurement."""


class KernelCheck(NamedTuple):
    """One kernel that was verified again."""

    path: Path
    """The file to show in messages."""
    task: str
    candidate: Candidate
    status: Status
    reason: str = ""
    """One stable word: the reason of the failed gate, `slower`, `revoked` or `infrastructure`; empty if the kernel passed."""
    detail: str = ""
    """What is wrong with the kernel."""
    seconds: float = 0.0
    """Duration of the verification."""
    outcome: Outcome | None = None
    recorded: RecordedKernel | None = None
    """None if the run has no correct kernel for the task."""
    comparison: Comparison = Comparison()

    @property
    def summary(self) -> str:
        """The result in one line."""
        if self.status is Status.PASSED:
            return f"correct, {describe_comparison(self.comparison)}"
        return f"{self.reason}: {formatting.first_line(self.detail, 200)}"


def compare_with_recorded(
    outcome: Outcome,
    candidate: Candidate,
    recorded: RecordedKernel | None,
    limit: float,
    *,
    same_device: bool,
    same_toolchain: bool = False,
) -> Comparison:
    """Compare the latency of a correct kernel with that of the recorded one.

    Latencies of one session, measured alternately, decide where the two kernels differ. Equal code would be timed against itself, so its
    speed-up over the baseline then and now decides; on an equal toolchain it is reported only, because equal code does not become slower.
    Estimates do not vary and are compared directly.
    """
    if recorded is None:
        return Comparison(method="the run has no correct kernel for this task")
    then = recorded.outcome
    if not outcome.latency_us or not then.latency_us:
        return Comparison(method="a kernel without a latency")
    if outcome.clock != then.clock:
        clocks = [formatting.clock_label([clock]) for clock in (outcome.clock, then.clock)]
        return Comparison(method=f"other clocks: now {clocks[0]}, in the run {clocks[1]}")
    if len(outcome.samples_us) == len(then.samples_us) == 1 and outcome.clock not in MEASURED_CLOCKS:
        slowdown = outcome.latency_us / then.latency_us - 1
        return Comparison(slowdown, None, slowdown > limit, "estimate against the recorded estimate")
    if outcome.incumbent == recorded.candidate.id != candidate.id and outcome.incumbent_us:
        return compare_pairs(outcome, limit)
    if not same_device:
        return Comparison(method="the run was recorded on another device")
    comparison = compare_sessions(outcome, then, limit)
    if comparison.slowdown is None or not same_toolchain:
        return comparison
    return comparison._replace(is_slower=False, method=f"{comparison.method}; reported only, because code and toolchain are equal")


def compare_pairs(outcome: Outcome, limit: float) -> Comparison:
    """Compare a kernel with the recorded one that was measured alternately with it."""
    pairs = outcome.paired_speedups("incumbent")
    if not pairs:
        return Comparison(method="a kernel without a latency")
    interval = median_interval(pairs) or (min(pairs), max(pairs))  # with few pairs each of them must show the slowdown
    return make_comparison(outcome.median_speedup("incumbent"), interval, max(limit, MIN_PAIRED_GAIN), "measured alternately")


def compare_sessions(now: Outcome, then: Outcome, limit: float) -> Comparison:
    """Compare the speed-ups over the same baseline, which was measured alternately with the kernel in either session."""
    if now.versions.get("torch") != then.versions.get("torch"):
        return Comparison(method="the baselines are those of another PyTorch")
    for name in now.baseline_us:
        new, old = now.speedup_interval(name), then.speedup_interval(name)
        if new and old:
            speedup = (now.median_speedup(name) or 1.0) / (then.median_speedup(name) or 1.0)
            method = f"speed-up over {baseline_label([name])} now and in the run"
            return make_comparison(speedup, (new[0] / old[1], new[1] / old[0]), max(limit, MIN_UNPAIRED_GAIN), method)
    return Comparison(method="too few samples of a common baseline")


def make_comparison(speedup: float | None, interval: Interval, limit: float, method: str) -> Comparison:
    """Turn a speed-up over the recorded kernel into a slowdown; it counts if the complete interval is beyond the limit."""
    margin = 1 - 1 / (1 + limit)
    is_slower = is_significant(interval, margin) and interval[1] < 1
    slowdown = 1 / speedup - 1 if speedup else None
    return Comparison(slowdown, (1 / interval[1] - 1, 1 / interval[0] - 1), is_slower, method)


def is_same_device(then: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether two environments, each as one table of hardware and versions, name the same device."""
    return all(then.get(key) == now.get(key) for key in SAME_DEVICE_KEYS)


def list_toolchain_changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """`compiler: g++ 12.2 in the run, g++ 13.1 here`: one line for each component whose version differs."""
    names = dict.fromkeys([*then, *now])
    unknown = "not recorded"
    return [
        f"{name}: {then.get(name, unknown)} in the run, {now.get(name, unknown)} here" for name in names if then.get(name) != now.get(name)
    ]


def describe_comparison(comparison: Comparison) -> str:
    """`2.1 % slower (95 % interval +0.9 % to +3.2 %), measured alternately`, `not compared: the run was recorded on another device`."""
    if comparison.slowdown is None:
        return f"not compared: {comparison.method}"
    text = format_slowdown(comparison.slowdown)
    if comparison.interval:
        text += f" (95 % interval {100 * comparison.interval[0]:+.1f} % to {100 * comparison.interval[1]:+.1f} %)"
    return f"{text}, {describe_method(comparison)}"


def describe_method(comparison: Comparison) -> str:
    """`measured alternately; slower in each of 2 measurements`."""
    count = comparison.measurements
    if count == 1:
        return comparison.method
    result = f"slower in each of {count} measurements" if comparison.is_slower else f"the last of {count} measurements shows no slowdown"
    return f"{comparison.method}; {result}"


def format_slowdown(slowdown: float | None) -> str:
    """`5.2 % slower`, `3.0 % less time`, `equally fast`."""
    if slowdown is None:
        return "not compared"
    if abs(slowdown) < 5e-4:
        return "equally fast"
    return f"{100 * slowdown:.1f} % slower" if slowdown > 0 else f"{-100 * slowdown:.1f} % less time"


def check_record(check: KernelCheck) -> dict[str, Any]:
    """The result for one kernel as JSON."""
    outcome, recorded, comparison = check.outcome, check.recorded, check.comparison
    return {
        "file": str(check.path),
        "task": check.task,
        "backend": check.candidate.backend,
        "candidate": check.candidate.id,
        "status": check.status.value,
        "reason": check.reason or None,
        "detail": check.detail or None,
        "latency_us": outcome.latency_us if outcome else None,
        "clock": (outcome.clock or None) if outcome else None,
        "recorded_attempt": recorded.attempt if recorded else None,
        "recorded_latency_us": recorded.outcome.latency_us if recorded else None,
        "slowdown": comparison.slowdown,
        "slowdown_interval": comparison.interval,
        "compared": comparison.method or None,
        "measurements": comparison.measurements if outcome and outcome.latency_us else 0,
        "seconds": check.seconds,
        "versions": dict(outcome.versions) if outcome else {},
    }
