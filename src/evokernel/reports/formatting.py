"""Figures as people read them. What is not known is a dash or "not reported", never a nought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evokernel.core.labels import baseline_label as baseline_label
from evokernel.core.labels import clock_label as clock_label
from evokernel.core.labels import estimate_note as estimate_note
from evokernel.core.records import Usage

UNKNOWN = "–"
TAGS = {
    "fixed-size": "checked at one size only: no module-level integer constant sets its sizes",
    "non-finite": "the reference's outputs hold NaN or infinities",
    "random": "the reference draws random numbers of its own, so no kernel can match it",
    "vacuous": "something that computes nothing would pass: change its inputs or tolerances",
}


def latency(us: float | None) -> str:
    """`412 µs`, `4.12 ms`: three significant digits."""
    if us is None:
        return UNKNOWN
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if us < limit * 0.9995:
            return f"{digits(us / scale)} {unit}"
    return UNKNOWN


def digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:.0f}"


def ratio(value: float | None) -> str:
    """`1.83×`."""
    return UNKNOWN if value is None else f"{digits(value)}×"


def percent(share: float | None) -> str:
    """`94 %`."""
    return UNKNOWN if share is None else f"{100 * share:.0f} %"


def noise(share: float | None) -> str:
    """` ± 0.4 %`, or nothing when it is not known or there is none, as with a single sample."""
    return "" if not share else f" ± {100 * share:.1f} %"


def duration(seconds: float | None) -> str:
    """`41 s`, `4 min 50 s`, `2 h 03 min`."""
    if seconds is None:
        return "not measured"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def cost(usage: Usage) -> str:
    """Money spent on models; `none` without a model or with one that costs nothing, `not reported` when the service did not say."""
    if not usage.calls:
        return "none (no model was called)"
    if usage.cost_usd == 0:
        return "none"
    return "not reported" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def backend(name: str, facts: Mapping[str, Mapping[str, str]]) -> str:
    """`pallas (v5e)`: a backend with the chip its kernels are for, where a run's facts name one."""
    chip = facts.get("versions", {}).get("chip")
    return f"{name} ({chip})" if chip else name


def tags(names: Iterable[str]) -> list[str]:
    """What a task's tags say about figures on it, in words."""
    return [f"{name}: {TAGS[name]}" if name in TAGS else name for name in names]


def first_line(text: str, limit: int = 100) -> str:
    """The beginning of a longer text, on one line."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def bytes_size(count: float) -> str:
    """`12.3 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{digits(count)} {unit}"
        count /= 1000
    return f"{digits(count)} TB"
