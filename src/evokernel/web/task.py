"""The view Task: how its attempts descend from each other, and one of them in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.reports import formatting, metrics, tables
from evokernel.reports.metrics import Tried
from evokernel.reports.page import headline, verdict
from evokernel.web import diff, lineage, roofline, svg
from evokernel.web.charts import Chart
from evokernel.web.render import Links, Page, Query, part
from evokernel.web.run_index import Shelf
from evokernel.web.run_tail import Followed, inside
from evokernel.web.runs import number

ROWS = 60
MOST_TEXT = 200_000
"""Characters of one prompt, reply or file that a page holds."""


class Text(NamedTuple):
    """Something that was asked or answered."""

    name: str
    text: str
    cut: int
    """Characters that were left out."""


def find(shelf: Shelf, query: Query) -> tuple[Followed, Tried]:
    """A task of a run, or a line that says there is none."""
    followed = shelf.get(query.get("run", ""))
    tried = followed.tried(query.get("task", ""))
    if tried is None:
        raise UserError(f"run '{followed.key}' has no task '{query.get('task', '')}'")
    return followed, tried


def place(tried: Tried, text: str) -> int | None:
    """The attempt that an address names, by number or by id."""
    last = text.rpartition("/")[2]
    chosen = int(last) if last.isdecimal() and len(last) < 7 else -1
    return chosen if 0 <= chosen < len(tried.attempts) else None


def default(tried: Tried) -> int | None:
    """The best attempt, else the last."""
    for count, attempt in enumerate(tried.attempts):
        if attempt is tried.best:
            return count
    return len(tried.attempts) - 1 if tried.attempts else None


def task(shelf: Shelf, query: Query, links: Links) -> Page:
    """A task, and one of its attempts held against another."""
    followed, tried = find(shelf, query)
    asked = place(tried, query.get("attempt", ""))
    chosen = asked if asked is not None else default(tried)
    starts = lineage.parents(tried.attempts)
    asked_other = place(tried, query.get("with", ""))
    other = asked_other if asked_other is not None else starts[chosen] if chosen is not None else None
    page = number(query, "page", 0)
    state = {"run": followed.key, "task": tried.task.id, "attempt": text(asked), "with": text(asked_other), "page": text(page or None)}

    def address(count: int) -> str:
        return links.to("task", run=followed.key, task=tried.task.id, attempt=count)

    parts = {
        "head": head(followed, tried, links),
        "path": part("chart.html.j2", links, charts=[one for one in [latencies(tried, chosen)] if one]),
        "tree": part("tree.html.j2", links, tree=lineage.drawn(tried, chosen, address), made=len(tried.attempts), most=lineage.MOST_NODES),
        "table": table(tried, starts, chosen, page, state, links),
        "attempt": detail(shelf, followed, tried, chosen, starts, links) if chosen is not None else Markup(""),
        "diff": difference(tried, chosen, other, links) if chosen is not None else Markup(""),
    }
    return Page(tried.task.id, "task", state, parts, layout="task.html.j2")


def head(followed: Followed, tried: Tried, links: Links) -> Markup:
    """The task in a few words."""
    fallen = [(one.id, tables.why(tried.finals[one.id].outcome)) for one in tried.fallen]
    told = {"says": headline(tried), "category": metrics.category(tried.task), "notes": formatting.tags(tried.task.tags)}
    return part("task_head.html.j2", links, followed=followed, tried=tried, fallen=fallen, **told)


def text(value: object) -> str:
    return "" if value is None else str(value)


def task_state(shelf: Shelf, query: Query) -> object:
    """Changes when the attempts of the task do."""
    followed, tried = find(shelf, query)
    return len(tried.attempts), tuple(tried.finals), [one.outcome.feasible for one in tried.attempts], followed.run is None


def latencies(tried: Tried, chosen: int | None) -> Chart | None:
    """Every attempt's latency, the best so far, the baseline and the floor."""
    made = [(n, attempt.outcome.latency_us) for n, attempt in enumerate(tried.attempts) if tried.is_correct(attempt)]
    timed = [(float(n), us) for n, us in made if us]
    if not timed:
        return None
    best = [(float(n), us) for n, us in enumerate(tried.trajectory()) if us]
    last = float(max(len(tried.attempts) - 1, 1))
    lines = [svg.Line("best so far", best, 0, steps=True)]
    if tried.baseline_us:
        lines.append(svg.Line(tables.heading([tried]), [(0.0, tried.baseline_us), (last, tried.baseline_us)], 1))
    if tried.floor_us:
        lines.append(svg.Line("floor", [(0.0, tried.floor_us), (last, tried.floor_us)], 2))
    marks = [(float(n), us, "c4" if n == chosen else "c3") for n, us in timed]
    marks = marks if len(marks) <= 400 else [marks[n] for n in svg.spread_out(len(marks), 400)]
    drawn = svg.lines("Latency of every correct attempt", lines, "attempt", "µs, logarithmic", log=True, dots=marks)
    if drawn is None:
        return None
    names = svg.legend([*((line.class_, line.name) for line in lines), ("fill f3", "correct attempts"), ("fill f4", "the chosen one")])
    return Chart("Latency", f"Times: {formatting.clock_label(metrics.clocks(tried.attempts))}.", drawn, names)


def table(tried: Tried, starts: Sequence[int | None], chosen: int | None, page: int, state: dict[str, str], links: Links) -> Markup:
    """The attempts, the newest first, a page at a time."""
    pages = -(-len(tried.attempts) // ROWS)
    page = min(page or 1, max(1, pages))
    numbers = range(len(tried.attempts) - 1, -1, -1)[(page - 1) * ROWS : page * ROWS]
    below = lineage.children_of(starts)
    rows = [(n, tried.attempts[n], verdict(tried.attempts[n]), starts[n], len(below.get(n, ()))) for n in numbers]
    return part("attempts.html.j2", links, rows=rows, chosen=chosen, state=state, page=page, pages=pages, tried=tried)


def detail(shelf: Shelf, followed: Followed, tried: Tried, chosen: int, starts: Sequence[int | None], links: Links) -> Markup:
    """One attempt: gates, profile, what was shown, asked, answered and written."""
    attempt = tried.attempts[chosen]
    bank = shelf.bank_of(followed)
    shown = [(ref, links.to("item", bank=bank, id=ref.id) if bank else "") for ref in attempt.shown_items]
    again = tried.finals.get(attempt.id)
    files = [Text(name, *cut(body)) for name, body in sorted(attempt.candidate.files.items())]
    return part(
        "attempt.html.j2",
        links,
        key=followed.key,
        tried=tried,
        number=chosen,
        attempt=attempt,
        verdict=verdict(attempt),
        start=starts[chosen],
        below=lineage.children_of(starts).get(chosen, []),
        shown=shown,
        again=again,
        is_best=attempt is tried.best,
        texts=texts(followed, attempt),
        files=files,
        roof=roofline.roofline(tried.task, tried, attempt.outcome),
        stand=roofline.standing(tried, attempt.outcome),
        interval=attempt.outcome.speedup_interval("incumbent"),
    )


def difference(tried: Tried, chosen: int, other: int | None, links: Links) -> Markup:
    """The chosen kernel against another; None: it was drafted from nothing."""
    old = tried.attempts[other].candidate.files if other is not None else {}
    found = diff.compared(old, tried.attempts[chosen].candidate.files) if other is not None else []
    return part("diff.html.j2", links, found=found, number=chosen, other=other)


def cut(body: str) -> tuple[str, int]:
    return body[:MOST_TEXT], max(0, len(body) - MOST_TEXT)


def texts(followed: Followed, attempt: Attempt) -> list[Text]:
    """Prompts and replies as they were kept, in the order of their names."""
    folder = inside(followed.folder / "artifacts", attempt.id)
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix == ".md") if folder and folder.is_dir() else []
    except OSError:
        names = []
    order = sorted(names, key=lambda name: (name.partition(".")[0], not name.endswith(".prompt.md")))
    return [Text(name, *cut(body)) for name in order if (body := followed.text(attempt.id, name)) is not None]
