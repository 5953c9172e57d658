"""Draws charts as SVG. Marks have CSS classes, so that one drawing serves the light and the dark theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 10, 38
MAX_POINTS = 240
COLOURS = 8
Point = tuple[float, float]


def element(name: str, *children: object, **attributes: object) -> Markup:
    """One SVG element; escapes what is not markup. `class_` becomes `class`, `text_anchor` becomes `text-anchor`."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{attribute_text}>{''.join(escape(child) for child in children)}</{name}>")


def svg_image(width: float, height: float, label: str, *children: object, class_: str = "chart") -> Markup:
    """A complete image; `label` describes it to screen readers."""
    return element("svg", *children, viewBox=f"0 0 {width:g} {height:g}", class_=class_, role="img", aria_label=label)


def format_coordinate(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def format_point(x: float, y: float) -> str:
    """Two coordinates as a path needs them."""
    return f"{format_coordinate(x)} {format_coordinate(y)}"


def line_path(points: Sequence[Point], is_stepped: bool = False) -> str:
    """The `d` attribute of a line through points; with steps if a value holds until the next point."""
    if not points:
        return ""
    parts = [f"M{format_coordinate(points[0][0])} {format_coordinate(points[0][1])}"]
    for x, y in points[1:]:
        parts.append(f"H{format_coordinate(x)}V{format_coordinate(y)}" if is_stepped else f"L{format_coordinate(x)} {format_coordinate(y)}")
    return "".join(parts)


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self, max_ticks: int = 6) -> list[float]:
        """Round values inside the range."""
        if self.log:
            powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = (1,) if len(powers) > 4 else (1, 2, 5) if len(powers) > 2 else (1, 1.5, 2, 3, 5, 7)
            every = max(1, len(powers) // max_ticks)
            return [step * 10.0**p for p in powers[::every] for step in steps if self.low <= step * 10.0**p <= self.high]
        return round_ticks(self.low, self.high, max_ticks)


def round_ticks(low: float, high: float, max_ticks: int) -> list[float]:
    """At most `max_ticks` round values between two values."""
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low]
    raw_step = (high - low) / max(1, max_ticks - 1)
    power = 10.0 ** floor(log10(raw_step))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw_step * 0.999)
    first = ceil(low / step - 1e-9)
    return [number * step for number in range(first, floor(high / step + 1e-9) + 1)]


def format_tick(value: float) -> str:
    """A short number: `1200`, `0.25`, `20k`, `3M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != 'k' else 1e3):.4g}{unit}"
    return f"{value:.4g}"


def draw_axes(x: Scale, y: Scale, x_label: str, y_label: str, integer_ticks: bool = True) -> Markup:
    """Both axes with ticks, grid and labels."""
    marks = []
    for tick in y.ticks():
        tick_y = y(tick)
        marks.append(
            element(
                "line",
                x1=format_coordinate(x.start),
                x2=format_coordinate(x.end),
                y1=format_coordinate(tick_y),
                y2=format_coordinate(tick_y),
                class_="grid",
            )
        )
        marks.append(
            element("text", format_tick(tick), x=format_coordinate(x.start - 6), y=format_coordinate(tick_y + 4), text_anchor="end")
        )
    for tick in x.ticks():
        if integer_ticks and not x.log and tick != int(tick):
            continue
        marks.append(
            element("text", format_tick(tick), x=format_coordinate(x(tick)), y=format_coordinate(y.start + 15), text_anchor="middle")
        )
    marks.append(
        element(
            "line",
            x1=format_coordinate(x.start),
            x2=format_coordinate(x.end),
            y1=format_coordinate(y.start),
            y2=format_coordinate(y.start),
            class_="axis",
        )
    )
    marks.append(
        element(
            "text",
            x_label,
            x=format_coordinate((x.start + x.end) / 2),
            y=format_coordinate(y.start + 31),
            text_anchor="middle",
            class_="name",
        )
    )
    middle = (y.start + y.end) / 2
    marks.append(
        element("text", y_label, transform=f"translate(11 {format_coordinate(middle)}) rotate(-90)", text_anchor="middle", class_="name")
    )
    return element("g", *marks, class_="axes")


@dataclass(frozen=True)
class Series:
    """A named series. `colour` is an index into the palette; dashes tell series of the same colour apart."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    band: Sequence[tuple[float, float, float]] = ()
    """A shaded band: x, low, high."""
    is_stepped: bool = False

    def drop_undrawable(self, log: bool) -> Series:
        """The series without points that cannot be drawn."""
        points = [(x, y) for x, y in self.points if isfinite(y) and (y > 0 or not log)]
        return self if len(points) == len(self.points) else replace(self, points=points, band=())

    @property
    def css_class(self) -> str:
        """CSS classes for colour and dashes."""
        return f"c{self.colour % COLOURS} d{self.colour % 4}"


def thin_points(points: Sequence[Point], max_points: int = MAX_POINTS) -> list[Point]:
    """At most `max_points` points: the last one of each stretch."""
    if len(points) <= max_points:
        return list(points)
    stride = len(points) / max_points
    return [points[min(len(points) - 1, ceil((n + 1) * stride) - 1)] for n in range(max_points)]


def draw_line_chart(
    label: str,
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
    log: bool = False,
    dots: Sequence[tuple[float, float, str]] = (),
) -> Markup | None:
    """A line chart over whole numbers; None without points."""
    drawable = [one_series for one_series in (one_series.drop_undrawable(log) for one_series in series) if one_series.points]
    if not drawable:
        return None
    xs = [x for one_series in drawable for x, _ in one_series.points]
    ys = (
        [y for _, y, _ in dots]
        + [y for one_series in drawable for _, y in one_series.points]
        + [v for one_series in drawable for _, low, high in one_series.band for v in (low, high)]
    )
    low, high = y_range or pad_range(min(ys), max(ys), log)
    x = Scale(min(xs), max(max(xs), min(xs) + 1), LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP, log)
    marks: list[Markup] = [draw_axes(x, y, x_label, y_label)]
    if not log and low < 0 < high:
        marks.append(
            element(
                "line",
                x1=format_coordinate(x.start),
                x2=format_coordinate(x.end),
                y1=format_coordinate(y(0)),
                y2=format_coordinate(y(0)),
                class_="axis",
            )
        )
    marks += [mark for one_series in drawable for mark in draw_series(one_series, x, y, has_markers=not dots)]
    marks += [
        element(
            "circle",
            element("title", f"{format_tick(a)}: {format_tick(round(b, 3))}"),
            cx=format_coordinate(x(a)),
            cy=format_coordinate(y(b)),
            r=4,
            class_=f"dot {c}",
        )
        for a, b, c in dots
    ]
    return svg_image(WIDTH, HEIGHT, label, *marks)


def draw_series(series: Series, x: Scale, y: Scale, has_markers: bool) -> Iterator[Markup]:
    """Yields the band, the line and, for short series, a marker for each point."""
    if series.band:
        band = [series.band[n] for n in spaced_indices(len(series.band))]
        upper, lower = [(x(n), y(top)) for n, _, top in band], [(x(n), y(bottom)) for n, bottom, _ in reversed(band)]
        yield element("path", d=line_path([*upper, *lower]) + "Z", class_=f"band {series.css_class}")
    pixels = [(x(a), y(b)) for a, b in thin_points(series.points)]
    yield element("path", element("title", series.name), d=line_path(pixels, series.is_stepped), class_=f"line {series.css_class}")
    if len(pixels) <= 40 and has_markers:
        for (a, b), (px, py) in zip(series.points, pixels):
            title = element("title", f"{series.name}: {format_tick(round(b, 3))} after {a:g}")
            center = {"cx": format_coordinate(px), "cy": format_coordinate(py)}
            yield element("circle", title, **center, r=3, class_=f"dot {series.css_class}")


def spaced_indices(count: int, max_count: int = MAX_POINTS) -> list[int]:
    """At most `max_count` evenly spaced indices, including the last."""
    if count <= max_count:
        return list(range(count))
    return sorted({round(n * (count - 1) / (max_count - 1)) for n in range(max_count)})


def pad_range(low: float, high: float, log: bool = False) -> tuple[float, float]:
    """A range with a margin around it."""
    if log:
        return low / 1.15, high * 1.15
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (0.0 if 0 <= low <= room * 3 else low - room), high + room


def draw_legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Names next to a sample of their mark; an entry is a CSS class and a name."""
    list_items = []
    for class_, name in entries:
        line, box = element("path", d="M1 6H23", class_=f"line {class_}"), element("rect", x=4, y=1, width=12, height=10, class_=class_)
        sample = element("svg", box if "fill" in class_ else line, viewBox="0 0 24 12", aria_hidden="true")
        list_items.append(element("li", sample, name))
    return element("ul", *list_items, class_="legend")


def draw_stacked_bars(label: str, names: Sequence[str], rows: Sequence[Sequence[float]], x_label: str, y_label: str) -> Markup | None:
    """Stacked bars of percentages, one bar per row; None without data."""
    if not names or not any(map(sum, rows)):
        return None
    max_bars = 60
    rows_per_bar = max(1, ceil(len(rows) / max_bars))
    groups = [rows[n : n + rows_per_bar] for n in range(0, len(rows), rows_per_bar)]
    x, y = Scale(0.5, len(rows) + 0.5, LEFT, WIDTH - RIGHT), Scale(0, 100, HEIGHT - BOTTOM, TOP)
    marks = [draw_axes(x, y, x_label, y_label)]
    for order, group in enumerate(groups):
        bar_left, bar_right = x(order * rows_per_bar + 0.5), x(min(order * rows_per_bar + len(group), len(rows)) + 0.5)
        stacked_share = 0.0
        for number, name in enumerate(names):
            share = sum(row[number] for row in group) / len(group)
            if share:
                gap = min(3.0, (bar_right - bar_left) * 0.15)
                geometry = {
                    "x": format_coordinate(bar_left + gap / 2),
                    "width": format_coordinate(bar_right - bar_left - gap),
                    "y": format_coordinate(y(stacked_share + share)),
                    "height": format_coordinate(y(0) - y(share)),
                }
                title = element(
                    "title",
                    f"{name}: {share:.0f} % of round {order * rows_per_bar + 1}"
                    + (f" to {order * rows_per_bar + len(group)}" if rows_per_bar > 1 else ""),
                )
                marks.append(element("rect", title, class_=f"fill f{number % COLOURS}", **geometry))
                stacked_share += share
    return svg_image(WIDTH, HEIGHT, label, *marks)


def draw_nested_bars(label: str, rows: Sequence[tuple[str, float, Sequence[tuple[str, float]]]]) -> Markup:
    """Nested bars: a name, a total, and parts of it with their CSS class, all in one unit."""
    high = max((total for _, total, _ in rows), default=1) or 1
    width, row_height, label_width = WIDTH, 24, 150
    scale = Scale(0, high, label_width, width - 60)
    marks = []
    for order, (name, total, parts) in enumerate(rows):
        top = order * row_height + 4
        short_name = name if len(name) <= 22 else name[:21] + "…"
        marks.append(element("text", short_name, element("title", name), x=label_width - 6, y=top + 12, text_anchor="end"))
        marks.append(element("rect", x=label_width, y=top, width=format_coordinate(scale(total) - label_width), height=16, class_="total"))
        for depth, (class_, value) in enumerate(parts):
            title = element("title", f"{name}: {format_tick(value)} of {format_tick(total)}")
            marks.append(
                element(
                    "rect",
                    title,
                    x=label_width,
                    y=top + 3 * depth,
                    width=format_coordinate(scale(value) - label_width),
                    height=16 - 6 * depth,
                    class_=class_,
                )
            )
        caption = " / ".join(format_tick(value) for _, value in reversed(parts)) + f" of {format_tick(total)}"
        marks.append(element("text", caption, x=format_coordinate(scale(total) + 5), y=top + 12))
    return svg_image(width + 60, len(rows) * row_height + 6, label, *marks)


def draw_sparkline(values: Sequence[float | None], label: str) -> Markup:
    """A small logarithmic line of best latencies; a flat line at the bottom until the first correct attempt."""
    width, height = 120, 30
    count = len(values)
    latencies = [value for value in values if value]
    x = Scale(0, max(count - 1, 1), 4, width - 4)
    marks: list[Markup] = []
    if latencies:
        low, high = min(latencies), max(latencies)
        y = Scale(low / 1.02, high * 1.02, height - 4, 4, log=True)
        points = [(x(n), y(value)) for n, value in enumerate(values) if value]
        drawn_points = [points[n] for n in spaced_indices(len(points), 60)]
        marks.append(element("path", d=line_path(drawn_points, is_stepped=True), class_="line c0"))
        marks.append(
            element("circle", cx=format_coordinate(drawn_points[-1][0]), cy=format_coordinate(drawn_points[-1][1]), r=2.5, class_="dot c0")
        )
    first_correct = next((n for n, value in enumerate(values) if value), count)
    if first_correct:
        marks.insert(
            0,
            element(
                "path", d=f"M{format_coordinate(x(0))} {height - 4}H{format_coordinate(x(max(first_correct - 1, 0.5)))}", class_="line none"
            ),
        )
    return svg_image(width, height, label, *marks, class_="spark")
