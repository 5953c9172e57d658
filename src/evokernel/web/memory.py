"""The views Memory and Item: what a bank holds, what it is worth and how it came to that."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Embedder
from evokernel.memory.index import KINDS
from evokernel.memory.ledger import Step
from evokernel.memory.queries import Browser, Listing, Wanted
from evokernel.web import svg
from evokernel.web.charts import Chart, named
from evokernel.web.render import Links, Page, Query, part
from evokernel.web.run_index import Shelf
from evokernel.web.runs import number
from evokernel.web.svg import Line

ROWS, NEAREST, STEPS, SHOWN = 50, 50, 200, 50
LOCAL = ("hash",)
"""Embedders that ask nobody."""
STAGES = {"draft": "Q1 (drafting)", "refine": "Q2 (refining)"}


class Banks:
    """The banks that are served, opened when first asked for. Used by one thread."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._open: dict[BankLocation, Browser] = {}

    def get(self, key: str) -> Browser:
        """A bank by its key, or a line that says there is none."""
        path = self.shelf.banks.get(key)
        if path is None:
            raise UserError(f"no memory bank '{key}' is served here")
        if path not in self._open:
            self._open[path] = Browser(path)
        return self._open[path]

    def close(self) -> None:
        for bank in self._open.values():
            bank.close()
        self._open.clear()


def embedder(bank: Browser) -> Embedder | None:
    """The one a bank was made with, where it works without a network."""
    made_with = bank.meta("embedder")
    for name in LOCAL:
        found: Embedder = make_plugin("embedder", name)
        if found.id == made_with:
            return found
    return None


def value(text: str) -> float | None:
    """A number of the address."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) <= 1e6 else None


def memory(banks: Banks, query: Query, links: Links) -> Page:
    """A page of what is remembered."""
    names = list(banks.shelf.banks)
    key = query.get("bank") or (names[0] if names else "")
    state = {name: query.get(name, "") for name in ("q", "how", "kind", "backend", "task", "least")}
    if not key:
        return Page("Memory", "memory", {}, {}, layout="memory.html.j2", live=False)
    bank = banks.get(key)
    least = value(state["least"])
    wanted = Wanted(state["q"], state["kind"], state["backend"], state["task"], least)
    page = number(query, "page")
    near = bool(state["how"] == "meaning" and state["q"].strip())
    if near:
        model = embedder(bank)
        found = bank.nearest(state["q"], model, wanted, NEAREST) if model else []
        listing, pages, page = Listing(found, len(found)), 1, 1
    else:
        listing = bank.page(wanted, ROWS, (page - 1) * ROWS)
        pages = -(-listing.total // ROWS)
    state = {"bank": key, **state, "least": "" if least is None else f"{least:g}", "page": str(page) if page > 1 else ""}
    told = {"items": listing.items, "count": listing.total, "near": near, "bank": key, "state": state, "page": page, "pages": pages}
    parts = {
        "head": part("memory_head.html.j2", links, figures=bank.figures(), path=bank.path),
        "results": part("results.html.j2", links, **told),
    }
    return Page("Memory", "memory", state, parts, layout="memory.html.j2", live=not state["q"])


def around(banks: Banks, query: Query) -> dict[str, object]:
    """What the form offers."""
    names = list(banks.shelf.banks)
    key = query.get("bank") or (names[0] if names else "")
    if not key:
        return {"banks": []}
    bank = banks.get(key)
    found = {"kinds": list(KINDS), "backends": bank.values("backend"), "embedder": bank.meta("embedder")}
    return {"banks": names, "by_meaning": embedder(bank) is not None, **found}


def memory_state(banks: Banks, query: Query) -> object:
    """Changes when the bank does."""
    names = list(banks.shelf.banks)
    return banks.get(query.get("bank") or names[0]).mark() if names else None


def item(banks: Banks, query: Query, links: Links) -> Page:
    """One item, its value over time, and what came of showing it."""
    key, id = query.get("bank", ""), query.get("id", "")
    bank = banks.get(key)
    entry, steps = bank.get(id), bank.history(id)
    runs = {row.id: row.key for row in list(banks.shelf.rows.values())}
    standings = {one.stage: one for one in bank.standings(id)}
    told = {"entry": entry, "item": entry.item, "bank": key}
    came = address(links, runs, entry.run, entry.item.task or "", entry.item.id.partition(":")[2].removesuffix("/note"))
    drawn = values(steps)
    parts = {
        "head": part("item.html.j2", links, standings={stage: standings.get(stage) for stage in STAGES}, task_address=came, **told),
        "path": part("chart.html.j2", links, charts=[drawn] if drawn else []),
        "shown": shown_in(bank, steps, runs, links) if steps else unvalued(banks.shelf, id, links),
        "text": part("item_text.html.j2", links, **told),
    }
    return Page(entry.item.title or id, "item", {"bank": key, "id": id}, parts, layout="item_page.html.j2")


def address(links: Links, runs: Mapping[str, str], run: str, task: str, attempt: str) -> str:
    """Where an attempt is shown; nowhere if its run is not served."""
    return links.to("task", run=runs[run], task=task, attempt=attempt.rpartition("/")[2]) if run in runs and task else ""


def values(steps: list[Step]) -> Chart | None:
    """Q after every update."""
    lines = []
    for order, (stage, name) in enumerate(STAGES.items()):
        path = [step.q_after for step in steps if step.stage == stage and step.scope == "" and not step.revoked]
        lines.append(Line(name, list(enumerate([0.0, *path])) if path else [], order, steps=True))
    drawn = svg.lines("Value of this item after every update", lines, "updates", "value Q")
    return Chart("Value", "Q after so many updates, from nought.", drawn, named(lines)) if drawn else None


def shown_in(bank: Browser, steps: list[Step], runs: Mapping[str, str], links: Links) -> Markup:
    """The attempts whose writers saw it."""
    latest = steps[::-1][:STEPS]
    came = bank.came_of([f"{step.run}:{step.attempt}" for step in latest])
    rows = [
        (step, came.get(f"{step.run}:{step.attempt}"), address(links, runs, step.run, step.attempt.rpartition("/")[0], step.attempt))
        for step in latest
    ]
    return part("shown_in.html.j2", links, rows=rows, count=len(steps))


def unvalued(shelf: Shelf, id: str, links: Links) -> Markup:
    """Where something was shown that has no row in the ledger, as far as the journals that were read tell."""
    found = [(run.key, *run.shown(id, SHOWN)) for run in list(shelf.runs.values())]
    rows = [(key, attempt, links.to("task", run=key, task=attempt.task, attempt=attempt.id)) for key, _, made in found for attempt in made]
    return part("seen_in.html.j2", links, rows=rows[:STEPS], count=sum(count for _, count, _ in found))


def item_state(banks: Banks, query: Query) -> object:
    """Changes when something is learned about the item."""
    return len(banks.get(query.get("bank", "")).history(query.get("id", "")))
