"""Formats figures for people. An unknown figure is a dash or "not reported", never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evokernel.core.labels import baseline_label as baseline_label
from evokernel.core.labels import clock_label as clock_label
from evokernel.core.labels import estimate_note as estimate_note
from evokernel.core.labels import format_attempt as format_attempt
from evokernel.core.labels import format_count as format_count
from evokernel.core.records import Usage

UNKNOWN = "–"
TAG_EXPLANATIONS = {
    "fixed-size": "checked at one size only: no module-level integer constant sets its sizes",
    "non-finite": "the reference's outputs contain NaN or infinities",
    "random": "the reference draws random numbers inside forward, so no kernel can match it",
    "vacuous": "a kernel that computes nothing would pass: change the task's inputs or tolerances",
}
BOTTLENECK_EXPLANATIONS = {
    "compute": "arithmetic throughput",
    "cube": "the matrix (cube) unit",
    "dma_latency": "waiting for transfers to and from memory",
    "eup": "the TPU's unit for transcendental functions",
    "hbm": "bandwidth of the device memory",
    "latency": "dependent operations; no unit is busy",
    "load_store": "vector loads and stores",
    "memory": "memory bandwidth",
    "mxu": "the TPU's matrix unit",
    "overhead": "fixed cost of a call",
    "scalar": "the scalar unit",
    "schedule": "dependent operations within a grid step",
    "spills": "register spills",
    "step_overhead": "fixed cost of a grid step",
    "store": "writes to the device memory",
    "vector": "the vector unit",
    "vpu": "the TPU's unit for elementwise arithmetic",
    "xlu": "the TPU's unit for moves and reductions across lanes",
}
"""The words of `Profile.bottleneck`, over all backends."""


def format_latency(us: float | None) -> str:
    """`412 µs`, `4.12 ms`: three significant digits."""
    if us is None:
        return UNKNOWN
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if us < limit * 0.9995:
            return f"{format_digits(us / scale)} {unit}"
    return UNKNOWN


def format_digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def format_ratio(value: float | None) -> str:
    """`1.83×`: three significant digits."""
    return UNKNOWN if value is None else f"{format_digits(value)}×"


def describe_speed(speedup: float | None, baseline: str) -> str:
    """`2.04× faster than XLA`, `6.00× slower than PyTorch eager`, `as fast as XLA`."""
    if not speedup:
        return f"speed-up over {baseline} unknown"
    if format_digits(speedup) == "1.00":
        return f"as fast as {baseline}"
    return f"{format_ratio(speedup)} faster than {baseline}" if speedup > 1 else f"{format_ratio(1 / speedup)} slower than {baseline}"


def format_speed(speedup: float | None) -> str:
    """`4.00× faster`, `6.00× slower`, `equally fast`: the speed relative to a baseline that is named elsewhere."""
    if not speedup:
        return UNKNOWN
    if format_digits(speedup) == "1.00":
        return "equally fast"
    return f"{format_ratio(speedup)} faster" if speedup > 1 else f"{format_ratio(1 / speedup)} slower"


def format_percent(share: float | None) -> str:
    """`94 %`."""
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def format_noise(share: float | None) -> str:
    """` ± 0.4 %`; an empty text if noise is unknown or zero, as with a single sample."""
    return "" if not share else f" ± {100 * share:.1f} %"


def format_duration(seconds: float | None) -> str:
    """`41 s`, `4 min 50 s`, `2 h 03 min`."""
    if seconds is None:
        return "not measured"
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60:02d} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60:02d} min"


def format_cost(usage: Usage) -> str:
    """Money spent on models: `none` without model calls or for a free model; if the price is unknown, the tokens if they are known."""
    if not usage.calls:
        return "none (no model was called)"
    if usage.cost_usd == 0:
        return "none"
    if usage.cost_usd is not None:
        return f"${usage.cost_usd:.4f}"
    if usage.input_tokens is None or usage.output_tokens is None:
        return "not reported"
    return f"price not known, {usage.input_tokens:,} input and {usage.output_tokens:,} output tokens"


def format_backend(name: str, environment: Mapping[str, Mapping[str, str]]) -> str:
    """`pallas (v5e)`: a backend and its target chip, if the run's environment names one."""
    chip = environment.get("versions", {}).get("chip")
    return f"{name} ({chip})" if chip else name


def explain_tags(names: Iterable[str]) -> list[str]:
    """Return each task tag with its explanation."""
    return [f"{name}: {TAG_EXPLANATIONS[name]}" if name in TAG_EXPLANATIONS else name for name in names]


def first_line(text: str, limit: int = 100) -> str:
    """Return the first non-empty line of a text, shortened to `limit` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def format_bytes(count: float) -> str:
    """`12.3 MB`: three significant digits, decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{format_digits(count)} {unit}"
        count /= 1000
    return f"{format_digits(count)} TB"
