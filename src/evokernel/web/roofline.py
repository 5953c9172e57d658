"""Where a kernel stands: between what the device allows and what it is held against."""

from __future__ import annotations

from math import isfinite

from markupsafe import Markup

from evokernel.core.records import Outcome, Task
from evokernel.reports import formatting
from evokernel.reports.metrics import Tried, floor_us
from evokernel.web.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, at, axes, drawing, el, path


def roofline(task: Task, tried: Tried, outcome: Outcome) -> Markup | None:
    """Operations per second over operations per byte, with both ceilings; None where these are not known."""
    figures = outcome.profile.figures if outcome.profile else {}
    speed, top = figures.get("ceiling_gbs", 0.0), figures.get("ceiling_gflops", 0.0)
    latency, work = outcome.latency_us, task.work
    if not all(isfinite(value) and value > 0 for value in (speed, top, latency or 0.0, work.flops, work.bytes)):
        return None
    assert latency
    intensity = work.flops / work.bytes
    ridge = top / speed
    x = Scale(min(intensity, ridge) / 8, max(intensity, ridge) * 8, LEFT + 8, WIDTH - RIGHT, log=True)
    reached = [(name, work.flops / us / 1e3, class_) for name, us, class_ in marks(tried, outcome) if us]
    lowest = min(value for _, value, _ in reached)
    y = Scale(min(lowest, x.low * speed) / 2, max(top, *(value for _, value, _ in reached)) * 2, HEIGHT - BOTTOM, TOP, log=True)
    roof = [(x(value), y(min(top, value * speed))) for value in (x.low, ridge, x.high)]
    shown = [axes(x, y, "operations per byte", "GFLOP/s", whole=False)]
    shown.append(el("path", el("title", f"{speed:.3g} GB/s up to {top:.3g} GFLOP/s"), d=path(roof), class_="line c2"))
    shown.append(el("path", d=f"M{at(x(intensity))} {at(y.start)}V{at(y(min(top, intensity * speed)))}", class_="line c2 d2"))
    for side, (name, value, class_) in zip((1, -1), reversed(reached)):
        title = el("title", f"{name}: {value:.3g} GFLOP/s, {100 * value / min(top, intensity * speed):.0f} % of the roof")
        shown.append(el("circle", title, cx=at(x(intensity)), cy=at(y(value)), r=6, class_=f"dot {class_}"))
        anchor = "start" if side > 0 else "end"
        shown.append(el("text", name, x=at(x(intensity) + 10 * side), y=at(y(value) + 4), text_anchor=anchor))
    return drawing(WIDTH, HEIGHT, "Roofline: where this kernel stands under the device's ceilings", *shown)


def marks(tried: Tried, outcome: Outcome) -> list[tuple[str, float | None, str]]:
    """The kernel, and the best one where it is another."""
    is_best = tried.best is not None and tried.best.outcome is outcome
    others: list[tuple[str, float | None, str]] = [] if is_best or not tried.outcome else [("best", tried.outcome.latency_us, "c3")]
    return [*others, ("this one", outcome.latency_us, "c1")]


def standing(tried: Tried, outcome: Outcome) -> Markup | None:
    """Floor, best, this kernel and the baseline as bars of time."""
    rows = [("floor", floor_us(outcome), "f2"), *((name, us, "f3" if name == "best" else "f1") for name, us, _ in marks(tried, outcome))]
    rows.append(
        (formatting.baseline_label([outcome.baseline_name]) if outcome.baseline_name else "baseline", outcome.baseline_latency_us(), "f0")
    )
    known = [(name, us, class_) for name, us, class_ in rows if us]
    if not outcome.latency_us or len(known) < 2:
        return None
    scale = Scale(0, max(us for _, us, _ in known), 110, WIDTH - 70)
    shown = []
    for order, (name, us, class_) in enumerate(known):
        top = order * 24 + 4
        shown.append(el("text", name, x=104, y=top + 12, text_anchor="end"))
        shown.append(el("rect", x=110, y=top, width=at(max(1.0, scale(us) - 110)), height=16, class_=f"fill {class_}"))
        shown.append(el("text", formatting.latency(us), x=at(scale(us) + 5), y=top + 12))
    return drawing(WIDTH, len(known) * 24 + 6, "Time of this kernel beside floor, best and baseline", *shown)
