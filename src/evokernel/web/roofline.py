"""Two charts that compare a kernel with the limits of the device and with the baseline."""

from __future__ import annotations

from math import isfinite

from markupsafe import Markup

from evokernel.core.records import Outcome, Task
from evokernel.reports import formatting
from evokernel.reports.metrics import TaskResult, roofline_us
from evokernel.web.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Scale,
    draw_axes,
    element,
    format_coordinate,
    format_point,
    line_path,
    svg_image,
)


def draw_roofline(task: Task, result: TaskResult, outcome: Outcome) -> Markup | None:
    """Operations per second over operations per byte with both ceilings; None if they are unknown."""
    figures = outcome.profile.figures if outcome.profile else {}
    bandwidth_gbs, peak_gflops = figures.get("ceiling_gbs", 0.0), figures.get("ceiling_gflops", 0.0)
    latency, work = outcome.latency_us, task.work
    if not all(isfinite(value) and value > 0 for value in (bandwidth_gbs, peak_gflops, latency or 0.0, work.flops, work.bytes)):
        return None
    assert latency
    intensity = work.flops / work.bytes
    ridge = peak_gflops / bandwidth_gbs
    x = Scale(min(intensity, ridge) / 8, max(intensity, ridge) * 8, LEFT + 8, WIDTH - RIGHT, log=True)
    points = [(name, work.flops / us / 1e3, class_) for name, us, class_ in compared_kernels(result, outcome) if us]
    lowest_gflops = min(value for _, value, _ in points)
    y = Scale(
        min(lowest_gflops, x.low * bandwidth_gbs) / 2,
        max(peak_gflops, *(value for _, value, _ in points)) * 2,
        HEIGHT - BOTTOM,
        TOP,
        log=True,
    )
    roof = [(x(value), y(min(peak_gflops, value * bandwidth_gbs))) for value in (x.low, ridge, x.high)]
    marks = [draw_axes(x, y, "operations per byte", "GFLOP/s", integer_ticks=False)]
    marks.append(
        element("path", element("title", f"{bandwidth_gbs:.3g} GB/s up to {peak_gflops:.3g} GFLOP/s"), d=line_path(roof), class_="line c2")
    )
    limit_y = y(min(peak_gflops, intensity * bandwidth_gbs))
    marks.append(element("path", d=f"M{format_point(x(intensity), y.start)}V{format_coordinate(limit_y)}", class_="line c2 d2"))
    for side, (name, value, class_) in zip((1, -1), reversed(points)):
        title = element(
            "title", f"{name}: {value:.3g} GFLOP/s, {100 * value / min(peak_gflops, intensity * bandwidth_gbs):.0f} % of the limit"
        )
        marks.append(
            element("circle", title, cx=format_coordinate(x(intensity)), cy=format_coordinate(y(value)), r=6, class_=f"dot {class_}")
        )
        anchor = "start" if side > 0 else "end"
        marks.append(
            element("text", name, x=format_coordinate(x(intensity) + 10 * side), y=format_coordinate(y(value) + 4), text_anchor=anchor)
        )
    return svg_image(WIDTH, HEIGHT, "Roofline: the speed of this kernel and the limits of the device", *marks)


def compared_kernels(result: TaskResult, outcome: Outcome) -> list[tuple[str, float | None, str]]:
    """The kernel, and the best kernel of the task if it is a different one."""
    is_best = result.best is not None and result.best.outcome is outcome
    best_kernel: list[tuple[str, float | None, str]] = (
        [] if is_best or not result.best_outcome else [("best", result.best_outcome.latency_us, "c3")]
    )
    return [*best_kernel, ("this kernel", outcome.latency_us, "c1")]


def draw_time_bars(result: TaskResult, outcome: Outcome) -> Markup | None:
    """Latency of the floor, the best kernel, this kernel and the baseline as bars."""
    rows = [
        ("floor", roofline_us(outcome), "f2"),
        *((name, us, "f3" if name == "best" else "f1") for name, us, _ in compared_kernels(result, outcome)),
    ]
    rows.append(
        (formatting.baseline_label([outcome.baseline_name]) if outcome.baseline_name else "baseline", outcome.baseline_latency_us(), "f0")
    )
    bars = [(name, us, class_) for name, us, class_ in rows if us]
    if not outcome.latency_us or len(bars) < 2:
        return None
    scale = Scale(0, max(us for _, us, _ in bars), 110, WIDTH - 70)
    marks = []
    for order, (name, us, class_) in enumerate(bars):
        top = order * 24 + 4
        marks.append(element("text", name, x=104, y=top + 12, text_anchor="end"))
        marks.append(element("rect", x=110, y=top, width=format_coordinate(max(1.0, scale(us) - 110)), height=16, class_=f"fill {class_}"))
        marks.append(element("text", formatting.format_latency(us), x=format_coordinate(scale(us) + 5), y=top + 12))
    return svg_image(WIDTH, len(bars) * 24 + 6, "Latency of the floor, the best kernel, this kernel and the baseline", *marks)
