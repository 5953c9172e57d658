"""Drawings as SVG: plain marks with classes, coloured by the style sheet, so that light and dark need no second drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 10, 10, 38
MOST_POINTS = 240
COLOURS = 8
Point = tuple[float, float]


def el(name: str, *children: object, **attributes: object) -> Markup:
    """One element; children and attributes that are not markup are escaped. `class_` is `class`, `text_anchor` is `text-anchor`."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value is not None)
    return Markup(f"<{name}{told}>{''.join(escape(child) for child in children)}</{name}>")


def drawing(width: float, height: float, label: str, *children: object, class_: str = "chart") -> Markup:
    """A whole picture; `label` is what a reader is told who does not see it."""
    return el("svg", *children, viewBox=f"0 0 {width:g} {height:g}", class_=class_, role="img", aria_label=label)


def at(value: float) -> str:
    """A coordinate, short."""
    return f"{value:.1f}".removesuffix(".0")


def path(points: Sequence[Point], steps: bool = False) -> str:
    """A line through points; as steps where a value holds until the next."""
    if not points:
        return ""
    parts = [f"M{at(points[0][0])} {at(points[0][1])}"]
    for x, y in points[1:]:
        parts.append(f"H{at(x)}V{at(y)}" if steps else f"L{at(x)} {at(y)}")
    return "".join(parts)


@dataclass(frozen=True)
class Scale:
    """Values to places."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (value - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside the range."""
        if self.log:
            powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = (1,) if len(powers) > 4 else (1, 2, 5) if len(powers) > 2 else (1, 1.5, 2, 3, 5, 7)
            every = max(1, len(powers) // most)
            return [step * 10.0**p for p in powers[::every] for step in steps if self.low <= step * 10.0**p <= self.high]
        return rounded(self.low, self.high, most)


def rounded(low: float, high: float, most: int) -> list[float]:
    """At most so many round values between two."""
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low]
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [number * step for number in range(first, floor(high / step + 1e-9) + 1)]


def figure(value: float) -> str:
    """A tick, short: `1200`, `0.25`, `20k`, `3M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (limit if unit != 'k' else 1e3):.4g}{unit}"
    return f"{value:.4g}"


def axes(x: Scale, y: Scale, x_label: str, y_label: str, whole: bool = True) -> Markup:
    """Both axes with ticks, grid and names."""
    marks = []
    for tick in y.ticks():
        place = y(tick)
        marks.append(el("line", x1=at(x.start), x2=at(x.end), y1=at(place), y2=at(place), class_="grid"))
        marks.append(el("text", figure(tick), x=at(x.start - 6), y=at(place + 4), text_anchor="end"))
    for tick in x.ticks():
        if whole and not x.log and tick != int(tick):
            continue
        marks.append(el("text", figure(tick), x=at(x(tick)), y=at(y.start + 15), text_anchor="middle"))
    marks.append(el("line", x1=at(x.start), x2=at(x.end), y1=at(y.start), y2=at(y.start), class_="axis"))
    marks.append(el("text", x_label, x=at((x.start + x.end) / 2), y=at(y.start + 31), text_anchor="middle", class_="name"))
    middle = (y.start + y.end) / 2
    marks.append(el("text", y_label, transform=f"translate(11 {at(middle)}) rotate(-90)", text_anchor="middle", class_="name"))
    return el("g", *marks, class_="axes")


@dataclass(frozen=True)
class Line:
    """A named series; `colour` counts through the palette, lines of the same colour differ by their dashes."""

    name: str
    points: Sequence[Point]
    colour: int = 0
    band: Sequence[tuple[float, float, float]] = ()
    """x, low, high."""
    steps: bool = False

    def possible(self, log: bool) -> Line:
        """Without what cannot be drawn."""
        kept = [(x, y) for x, y in self.points if isfinite(y) and (y > 0 or not log)]
        return self if len(kept) == len(self.points) else replace(self, points=kept, band=())

    @property
    def class_(self) -> str:
        return f"c{self.colour % COLOURS} d{self.colour % 4}"


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """The last point of each of so many stretches: what a curve came to."""
    if len(points) <= most:
        return list(points)
    every = len(points) / most
    return [points[min(len(points) - 1, ceil((n + 1) * every) - 1)] for n in range(most)]


def lines(
    label: str,
    series: Sequence[Line],
    x_label: str,
    y_label: str,
    y_range: tuple[float, float] | None = None,
    log: bool = False,
    dots: Sequence[tuple[float, float, str]] = (),
) -> Markup | None:
    """A chart of lines over whole numbers; None without a point."""
    drawn = [line for line in (line.possible(log) for line in series) if line.points]
    if not drawn:
        return None
    xs = [x for line in drawn for x, _ in line.points]
    ys = (
        [y for _, y, _ in dots]
        + [y for line in drawn for _, y in line.points]
        + [v for line in drawn for _, low, high in line.band for v in (low, high)]
    )
    low, high = y_range or padded(min(ys), max(ys), log)
    x = Scale(min(xs), max(max(xs), min(xs) + 1), LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP, log)
    marks: list[Markup] = [axes(x, y, x_label, y_label)]
    if not log and low < 0 < high:
        marks.append(el("line", x1=at(x.start), x2=at(x.end), y1=at(y(0)), y2=at(y(0)), class_="axis"))
    for line in drawn:
        if line.band:
            band = [line.band[n] for n in spread_out(len(line.band))]
            there, back = [(x(n), y(top)) for n, _, top in band], [(x(n), y(bottom)) for n, bottom, _ in reversed(band)]
            marks.append(el("path", d=path([*there, *back]) + "Z", class_=f"band {line.class_}"))
        places = [(x(a), y(b)) for a, b in thinned(line.points)]
        marks.append(el("path", el("title", line.name), d=path(places, line.steps), class_=f"line {line.class_}"))
        if len(places) <= 40 and not dots:
            for (a, b), (px, py) in zip(line.points, places):
                marks.append(el("circle", el("title", f"{line.name}: {figure(round(b, 3))} after {a:g}"), cx=at(px), cy=at(py), r=3,
                                class_=f"dot {line.class_}"))  # fmt: skip
    marks += [
        el("circle", el("title", f"{figure(a)}: {figure(round(b, 3))}"), cx=at(x(a)), cy=at(y(b)), r=4, class_=f"dot {c}")
        for a, b, c in dots
    ]
    return drawing(WIDTH, HEIGHT, label, *marks)


def spread_out(count: int, most: int = MOST_POINTS) -> list[int]:
    """At most so many places of a sequence, the last one among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})


def padded(low: float, high: float, log: bool = False) -> tuple[float, float]:
    """A range with a little room around it."""
    if log:
        return low / 1.15, high * 1.15
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (0.0 if 0 <= low <= room * 3 else low - room), high + room


def legend(series: Sequence[tuple[str, str]]) -> Markup:
    """Names beside a sample of their mark: class and name."""
    entries = []
    for class_, name in series:
        sample = el("svg", el("path", d="M1 6H23", class_=f"line {class_}") if "fill" not in class_ else
                    el("rect", x=4, y=1, width=12, height=10, class_=class_), viewBox="0 0 24 12", aria_hidden="true")  # fmt: skip
        entries.append(el("li", sample, name))
    return el("ul", *entries, class_="legend")


def stack(label: str, names: Sequence[str], rows: Sequence[Sequence[float]], x_label: str, y_label: str) -> Markup | None:
    """Bars of shares (in per cent) on one another, a bar for each row; None where there is nothing."""
    if not names or not any(map(sum, rows)):
        return None
    most = 60
    every = max(1, ceil(len(rows) / most))
    groups = [rows[n : n + every] for n in range(0, len(rows), every)]
    x, y = Scale(0.5, len(rows) + 0.5, LEFT, WIDTH - RIGHT), Scale(0, 100, HEIGHT - BOTTOM, TOP)
    marks = [axes(x, y, x_label, y_label)]
    for order, group in enumerate(groups):
        left, right = x(order * every + 0.5), x(min(order * every + len(group), len(rows)) + 0.5)
        below = 0.0
        for number, name in enumerate(names):
            share = sum(row[number] for row in group) / len(group)
            if share:
                gap = min(3.0, (right - left) * 0.15)
                where = {"x": at(left + gap / 2), "width": at(right - left - gap), "y": at(y(below + share)), "height": at(y(0) - y(share))}
                title = el(
                    "title",
                    f"{name}: {share:.0f} % of round {order * every + 1}" + (f" to {order * every + len(group)}" if every > 1 else ""),
                )
                marks.append(el("rect", title, class_=f"fill f{number % COLOURS}", **where))
                below += share
    return drawing(WIDTH, HEIGHT, label, *marks)


def bars(label: str, rows: Sequence[tuple[str, float, Sequence[tuple[str, float]]]]) -> Markup:
    """Nested bars: a name, a whole, and parts of it with their class, all in the same unit."""
    high = max((whole for _, whole, _ in rows), default=1) or 1
    width, each, left = WIDTH, 24, 150
    scale = Scale(0, high, left, width - 60)
    marks = []
    for order, (name, whole, parts) in enumerate(rows):
        top = order * each + 4
        shown = name if len(name) <= 22 else name[:21] + "…"
        marks.append(el("text", shown, el("title", name), x=left - 6, y=top + 12, text_anchor="end"))
        marks.append(el("rect", x=left, y=top, width=at(scale(whole) - left), height=16, class_="whole"))
        for depth, (class_, value) in enumerate(parts):
            title = el("title", f"{name}: {figure(value)} of {figure(whole)}")
            marks.append(el("rect", title, x=left, y=top + 3 * depth, width=at(scale(value) - left), height=16 - 6 * depth, class_=class_))
        told = " / ".join(figure(value) for _, value in reversed(parts)) + f" of {figure(whole)}"
        marks.append(el("text", told, x=at(scale(whole) + 5), y=top + 12))
    return drawing(width + 60, len(rows) * each + 6, label, *marks)


def spark(values: Sequence[float | None], label: str) -> Markup:
    """A small line of best latencies, logarithmic; crosses along the bottom until something is correct."""
    width, height = 120, 30
    count = len(values)
    some = [value for value in values if value]
    x = Scale(0, max(count - 1, 1), 4, width - 4)
    marks: list[Markup] = []
    if some:
        low, high = min(some), max(some)
        y = Scale(low / 1.02, high * 1.02, height - 4, 4, log=True)
        points = [(x(n), y(value)) for n, value in enumerate(values) if value]
        shown = [points[n] for n in spread_out(len(points), 60)]
        marks.append(el("path", d=path(shown, steps=True), class_="line c0"))
        marks.append(el("circle", cx=at(shown[-1][0]), cy=at(shown[-1][1]), r=2.5, class_="dot c0"))
    unsolved = next((n for n, value in enumerate(values) if value), count)
    if unsolved:
        marks.insert(0, el("path", d=f"M{at(x(0))} {height - 4}H{at(x(max(unsolved - 1, 0.5)))}", class_="line none"))
    return drawing(width, height, label, *marks, class_="spark")
