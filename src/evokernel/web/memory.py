"""The pages Memory and Item: the items of a memory bank, their values, and how they got them."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.memory_ids import make_trace_id, split_trace_id, task_of_attempt
from evokernel.core.plugins import make_plugin
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory.index import KINDS
from evokernel.memory.ledger import HistoryEntry
from evokernel.memory.queries import BankBrowser, ItemPage, ItemQuery
from evokernel.reports import next_steps
from evokernel.web import svg
from evokernel.web.charts import Chart, series_legend
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.runs import parse_page_number
from evokernel.web.svg import Series

ROWS_PER_PAGE, MAX_SIMILAR, MAX_UPDATES, MAX_OCCURRENCES = 50, 50, 200, 50
LOCAL_EMBEDDERS = ("hash",)
"""Embedders that work without a network."""
STAGE_LABELS = {"draft": "Q1 (drafting)", "refine": "Q2 (refining)"}


class OpenBanks:
    """The memory banks of the dashboard, opened on first use. Only one thread uses them."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index = run_index
        self._open: dict[BankLocation, BankBrowser] = {}

    def get(self, key: str) -> BankBrowser:
        """The bank with this key; raises UserError if the dashboard does not serve it."""
        path = self.run_index.banks.get(key)
        if path is None:
            raise UserError(f"the dashboard serves no memory bank '{key}'.")
        if path not in self._open:
            self._open[path] = BankBrowser(path)
        return self._open[path]

    def close(self) -> None:
        """Close every bank that was opened."""
        for bank in self._open.values():
            bank.close()
        self._open.clear()


def local_embedder(bank: BankBrowser) -> Embedder | None:
    """The embedder that the bank was built with, if it works without a network."""
    embedder_id = bank.read_meta("embedder")
    for name in LOCAL_EMBEDDERS:
        embedder: Embedder = make_plugin("embedder", name)
        if embedder.id == embedder_id:
            return embedder
    return None


def parse_value(text: str) -> float | None:
    """A number from the URL; None if it is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= 1e6 else None


def memory_page(banks: OpenBanks, query: Query, links: Links) -> Page:
    """One page of the bank's items that match the search form."""
    names = list(banks.run_index.banks)
    key = query.get("bank") or (names[0] if names else "")
    state = {name: query.get(name, "") for name in ("q", "how", "kind", "backend", "task", "min_value")}
    if not key:
        return Page("Memory", "memory", {}, {}, layout="memory.html.j2", is_live=False)
    bank = banks.get(key)
    min_value = parse_value(state["min_value"])
    item_query = ItemQuery(state["q"], state["kind"], state["backend"], state["task"], min_value)
    page = parse_page_number(query, "page")
    by_similarity = bool(state["how"] == "meaning" and state["q"].strip())
    if by_similarity:
        model = local_embedder(bank)
        items = bank.search_nearest(state["q"], model, item_query, MAX_SIMILAR) if model else []
        listing, pages, page = ItemPage(items, len(items)), 1, 1
    else:
        listing = bank.list_page(item_query, ROWS_PER_PAGE, (page - 1) * ROWS_PER_PAGE)
        pages = -(-listing.total // ROWS_PER_PAGE)
    state = {"bank": key, **state, "min_value": "" if min_value is None else f"{min_value:g}", "page": str(page) if page > 1 else ""}
    values = {
        "items": listing.items,
        "count": listing.total,
        "by_similarity": by_similarity,
        "bank": key,
        "state": state,
        "page": page,
        "pages": pages,
    }
    parts = {
        "head": render_part(
            "memory_head.html.j2", links, figures=bank.summarize(), path=bank.path, steps=next_steps.bank_steps(bank.path), is_open=False
        ),
        "results": render_part("results.html.j2", links, **values),
    }
    return Page("Memory", "memory", state, parts, layout="memory.html.j2", is_live=not state["q"])


def form_options(banks: OpenBanks, query: Query) -> dict[str, object]:
    """The choices that the search form offers."""
    names = list(banks.run_index.banks)
    key = query.get("bank") or (names[0] if names else "")
    if not key:
        return {"banks": []}
    bank = banks.get(key)
    options = {"kinds": list(KINDS), "backends": bank.distinct_values("backend"), "embedder": bank.read_meta("embedder")}
    return {"banks": names, "by_meaning": local_embedder(bank) is not None, **options}


def memory_version(banks: OpenBanks, query: Query) -> object:
    """A value that changes when the bank changes."""
    names = list(banks.run_index.banks)
    return banks.get(query.get("bank") or names[0]).change_token() if names else None


def item_page(banks: OpenBanks, query: Query, links: Links) -> Page:
    """One item, its value over time, and the attempts that were shown it."""
    key, id = query.get("bank", ""), query.get("id", "")
    bank = banks.get(key)
    entry, steps = bank.get_item(id), bank.value_history(id)
    run_keys = {row.id: row.key for row in list(banks.run_index.rows.values())}
    values_by_stage = {one.stage: one for one in bank.list_values(id)}
    values = {"entry": entry, "item": entry.item, "bank": key}
    task_url = attempt_url(links, run_keys, entry.run, entry.item.task or "", split_trace_id(entry.item.id)[1])
    chart = value_chart(steps)
    parts = {
        "head": render_part(
            "item.html.j2",
            links,
            values_by_stage={stage: values_by_stage.get(stage) for stage in STAGE_LABELS},
            task_url=task_url,
            steps=next_steps.item_steps(id, bank.path),
            is_open=False,
            **values,
        ),
        "path": render_part("chart.html.j2", links, charts=[chart] if chart else []),
        "shown": render_value_updates(bank, steps, run_keys, links) if steps else render_occurrences(banks.run_index, id, links),
        "text": render_part("item_text.html.j2", links, titles=bank.load_titles(origin_ids(entry.item)), **values),
    }
    return Page(entry.item.title or id, "item", {"bank": key, "id": id}, parts, layout="item_page.html.j2")


def origin_ids(item: MemoryItem) -> list[str]:
    """The items that an item comes from."""
    return [*([item.parent] if item.parent else []), *item.shown_items]


def attempt_url(links: Links, run_keys: Mapping[str, str], run: str, task: str, attempt: str) -> str:
    """The URL of an attempt; empty if the dashboard does not serve its run."""
    return links.url_for("task", run=run_keys[run], task=task, attempt=attempt.rpartition("/")[2]) if run in run_keys and task else ""


def value_chart(steps: list[HistoryEntry]) -> Chart | None:
    """Q of an item after every update."""
    series = []
    for order, (stage, name) in enumerate(STAGE_LABELS.items()):
        q_values = [step.q_after for step in steps if step.stage == stage and step.scope == "" and not step.revoked]
        series.append(Series(name, list(enumerate([0.0, *q_values])) if q_values else [], order, is_stepped=True))
    chart = svg.draw_line_chart("Value of this item after every update", series, "updates", "value Q")
    return Chart("Value", "Q after each update, starting at zero.", chart, series_legend(series)) if chart else None


def render_value_updates(bank: BankBrowser, steps: list[HistoryEntry], run_keys: Mapping[str, str], links: Links) -> Markup:
    """The table of attempts whose prompts showed the item and that updated its value."""
    latest = steps[::-1][:MAX_UPDATES]
    results = bank.attempt_results([make_trace_id(step.run, step.attempt) for step in latest])
    rows = [
        (
            step,
            results.get(make_trace_id(step.run, step.attempt)),
            attempt_url(links, run_keys, step.run, task_of_attempt(step.attempt), step.attempt),
        )
        for step in latest
    ]
    return render_part("value_updates.html.j2", links, rows=rows, count=len(steps))


def render_occurrences(run_index: RunIndex, id: str, links: Links) -> Markup:
    """Attempts that were shown an item without value updates, from the journals that are loaded."""
    occurrences = [(run.key, *run.attempts_showing(id, MAX_OCCURRENCES)) for run in list(run_index.runs.values())]
    rows = [
        (key, attempt, links.url_for("task", run=key, task=attempt.task, attempt=attempt.id))
        for key, _, attempts in occurrences
        for attempt in attempts
    ]
    return render_part("occurrences.html.j2", links, rows=rows[:MAX_UPDATES], count=sum(count for _, count, _ in occurrences))


def item_version(banks: OpenBanks, query: Query) -> object:
    """A value that changes when the item's value is updated."""
    return len(banks.get(query.get("bank", "")).value_history(query.get("id", "")))
