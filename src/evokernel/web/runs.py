"""The views Runs and Run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evokernel.reports import formatting, metrics, tables
from evokernel.reports.metrics import Tried
from evokernel.web import charts, svg
from evokernel.web.render import Links, Page, Query, part
from evokernel.web.run_index import Shelf
from evokernel.web.run_tail import Followed
from evokernel.web.summary import MEASURES, Row, planned, summarise

ROWS, CELLS, LATEST, COMPARED = 100, 120, 8, 5
SORTS: dict[str, Callable[[Row], Any]] = {
    "": lambda row: row.key,
    "last": lambda row: row.at or 0.0,
    "correct": lambda row: row.correct or 0.0,
    "speed-up": lambda row: row.geomean or 0.0,
    "attempts": lambda row: row.attempts,
}
ORDERS: dict[str, Callable[[Tried], Any]] = {
    "": lambda tried: 0,
    "speed-up": lambda tried: -(tried.speedup or 0.0),
    "gain": lambda tried: -(tried.gain or 0.0),
    "attempts": lambda tried: -len(tried.attempts),
    "name": lambda tried: tried.task.id,
}
NO_SUCH, NO_RUNS = "No run is called that.", "There are no runs here yet. 'evokernel run' makes one; it appears here by itself."
STATES = {"correct": "correct", "compiled": "compiles", "failed": "fails", "waiting": "not tried"}


def number(query: Query, name: str, least: int = 1) -> int:
    """A whole number of the address; the least where it is none."""
    text = query.get(name, "")
    return max(least, int(text)) if text.isdecimal() and len(text) < 9 else least


def runs(shelf: Shelf, query: Query, links: Links) -> Page:
    """Every run, and a chart of some."""
    by = query.get("by", "") if query.get("by") in MEASURES else "correct"
    sort = query.get("sort", "") if query.get("sort") in SORTS else ""
    rows = [shelf.rows.get(key) or Row(key) for key in shelf.runs]
    for_text = query.get("text", "").lower()
    rows = [row for row in rows if for_text in f"{row.key} {row.backend} {row.generator} {row.model} {row.policy} {row.suite}".lower()]
    rows.sort(key=SORTS[sort], reverse=True)
    asked = [key for key in query.get("compare", "").split(",") if key in shelf.runs]
    chosen = asked or [row.key for row in rows if row.attempts][:COMPARED]
    page = min(number(query, "page"), max(1, -(-len(rows) // ROWS)))
    state = {
        "compare": ",".join(asked),
        "by": by if query.get("by") else "",
        "sort": sort,
        "text": query.get("text", ""),
        "page": str(page),
    }
    shown = rows[(page - 1) * ROWS : page * ROWS]
    unread = set(shelf.unread())
    cells = {f"row-{row.key}": part("run_row.html.j2", links, row=row, chosen=chosen, reading=row.key in unread) for row in shown}
    drawn = charts.compared([shelf.rows[key] for key in chosen if key in shelf.rows], by)
    pages = -(-len(rows) // ROWS)
    parts = {
        "chart": part("chart.html.j2", links, charts=[drawn] if drawn else []),
        "grid": part("cells.html.j2", links, cells=cells, tag="tr"),
        "empty": part("empty.html.j2", links, says="" if cells else NO_SUCH if for_text else NO_RUNS),
        "pager": part("pager.html.j2", links, view="runs", state=state, page=page, pages=pages),
    }
    return Page("Runs", "runs", state, parts, cells, "runs.html.j2")


def run(shelf: Shelf, query: Query, links: Links) -> Page:
    """One run: how it goes, and every task."""
    followed = shelf.get(query.get("run", ""))
    chosen = select(followed, query)
    page = min(number(query, "page"), max(1, -(-len(chosen) // CELLS)))
    state = {name: query.get(name, "") for name in ("category", "show", "sort", "text")}
    state = {"run": followed.key, **state, "page": str(page) if page > 1 else ""}
    names = tables.short_names([tried.task.id for tried in followed.found])
    cells, places = {}, followed.places
    for tried in chosen[(page - 1) * CELLS : page * CELLS]:
        address = links.to("task", run=followed.key, task=tried.task.id)
        name = names[tried.task.id]
        html = followed.once_of(f"cell {address}", tried, lambda one, name=name, address=address: cell(one, name, address, links))  # type: ignore[misc]
        cells[f"task-{places[tried.task.id]}"] = html
    drawn = followed.once("charts", lambda: part("chart.html.j2", links, charts=charts.of_run(followed.found, followed.attempts)))
    head = followed.once("head", lambda: head_of(shelf, followed, links))
    latest = [(attempt, verdict(attempt)) for attempt in followed.latest(LATEST)]
    parts = {
        "head": head,
        "charts": drawn,
        "latest": part("latest.html.j2", links, key=followed.key, latest=latest),
        "grid": part("cells.html.j2", links, cells=cells, tag="li"),
        "empty": part("empty.html.j2", links, says="" if cells or not followed.found else "No task is like that."),
        "pager": part("pager.html.j2", links, view="run", state=state, page=page, pages=-(-len(chosen) // CELLS)),
    }
    return Page(followed.key, "run", state, parts, cells, "run.html.j2")


def select(followed: Followed, query: Query) -> list[Tried]:
    """The tasks that the address asks for, in its order."""
    found: Sequence[Tried] = followed.found
    category, show, text = query.get("category", ""), query.get("show", ""), query.get("text", "").lower()
    found = [tried for tried in found if category in ("", metrics.category(tried.task)) and text in tried.task.id.lower()]
    found = [tried for tried in found if show in ("", state_of(tried)) or show not in STATES]
    return sorted(found, key=ORDERS.get(query.get("sort", ""), ORDERS[""]))


def state_of(tried: Tried) -> str:
    """How far a task got, in one word."""
    return "correct" if tried.solved else "compiled" if tried.compiled else "failed" if tried.attempts else "waiting"


def verdict(attempt: Any) -> str:
    """What was found, in a few words."""
    outcome = attempt.outcome
    return tables.why(outcome) if not outcome.feasible else formatting.latency(outcome.latency_us)


def cell(tried: Tried, name: str, address: str, links: Links) -> Any:
    """A task in the grid."""
    path = tried.trajectory()
    line = svg.spark(path, f"best latency over {len(path)} attempts")
    return part("task_cell.html.j2", links, tried=tried, name=name, address=address, state=state_of(tried), says=STATES, spark=line)


def head_of(shelf: Shelf, followed: Followed, links: Links) -> Any:
    """Who, what, how far, and the run in a few figures."""
    found, attempts = followed.found, followed.attempts
    totals = tables.totals(found, metrics.span_s(attempts), "first to last attempt") if followed.run else []
    plan = planned(followed.run, found) if followed.run else 0
    return part(
        "run_head.html.j2",
        links,
        row=summarise(followed),
        run=followed.run,
        notes=followed.notes,
        totals=totals,
        made=len(attempts),
        plan=plan,
        bank=shelf.bank_of(followed),
        incidents=followed.incidents(),
    )


def reading(shelf: Shelf) -> bool:
    """Whether some runs of the list were not read yet."""
    return bool(shelf.unread())


def run_state(shelf: Shelf, query: Query) -> object:
    """Changes when the view of a run may."""
    return shelf.get(query.get("run", "")).version


def runs_state(shelf: Shelf, query: Query) -> object:
    """Changes when the list may; reads the runs that it knows already."""
    for key in shelf.rows:
        shelf.row(key)
    return tuple((key, shelf.seen.get(key)) for key in shelf.runs)
