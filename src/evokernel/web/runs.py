"""The pages Runs (the list) and Run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evokernel.reports import formatting, metrics, next_steps, tables
from evokernel.reports.metrics import TaskResult
from evokernel.reports.next_steps import NextStep
from evokernel.reports.run_state import group_incidents
from evokernel.web import charts, svg
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail
from evokernel.web.shown_items import render_item_uses
from evokernel.web.summary import MEASURES, RunRow, count_planned_attempts, summarize_run

ROWS_PER_PAGE, TASKS_PER_PAGE, LATEST_ATTEMPTS, COMPARED_RUNS, MAX_INCIDENTS = 100, 120, 8, 5, 20
RUN_SORT_KEYS: dict[str, Callable[[RunRow], Any]] = {
    "": lambda row: row.key,
    "last": lambda row: row.last_attempt_at or 0.0,
    "correct": lambda row: row.correct_share or 0.0,
    "speed-up": lambda row: row.geomean_speedup or 0.0,
    "attempts": lambda row: row.attempts,
}
TASK_SORT_KEYS: dict[str, Callable[[TaskResult], Any]] = {
    "": lambda result: 0,
    "speed-up": lambda result: -(result.speedup or 0.0),
    "gain": lambda result: -(result.gain or 0.0),
    "attempts": lambda result: -len(result.attempts),
    "name": lambda result: result.task.id,
}
NO_MATCH, NO_RUNS = "No run matches.", "There are no runs yet. 'evokernel run' starts one; it appears here automatically."
NO_ATTEMPT_YET = "No attempt is finished yet. Finished attempts appear here automatically."
NO_ATTEMPT = "This run made no attempt; the reason is above."
ENDINGS = {
    "failed": "The run failed",
    "killed": "The run ended abruptly",
    "interrupted": "Interrupted",
    "stopped": "The run stopped at a limit",
    "unsolved": "Finished without a correct kernel",
    "finished": "The last session ended early",
}
"""What the page says before the reason, by state."""
STATE_LABELS = {"correct": "correct", "compiled": "compiles", "failed": "does not compile", "waiting": "no attempts"}


def parse_page_number(query: Query, name: str, minimum: int = 1) -> int:
    """A whole number from the URL; the minimum if it is not one."""
    text = query.get(name, "")
    return max(minimum, int(text)) if text.isdecimal() and len(text) < 9 else minimum


def runs_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """The list of all runs, with a chart that compares some of them."""
    measure = query.get("by", "") if query.get("by") in MEASURES else "correct"
    sort = query.get("sort", "") if query.get("sort") in RUN_SORT_KEYS else ""
    rows = [run_index.rows.get(key) or RunRow(key) for key in run_index.runs]
    search_text = query.get("text", "").lower()
    rows = [row for row in rows if search_text in f"{row.key} {row.backend} {row.generator} {row.model} {row.policy} {row.suite}".lower()]
    rows.sort(key=RUN_SORT_KEYS[sort], reverse=True)
    requested = [key for key in query.get("compare", "").split(",") if key in run_index.runs]
    compared = requested or [row.key for row in rows if row.attempts][:COMPARED_RUNS]
    page = min(parse_page_number(query, "page"), max(1, -(-len(rows) // ROWS_PER_PAGE)))
    state = {
        "compare": ",".join(requested),
        "by": measure if query.get("by") else "",
        "sort": sort,
        "text": query.get("text", ""),
        "page": str(page),
    }
    shown_rows = rows[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    unread = set(run_index.unread_keys())
    cells = {
        f"row-{row.key}": render_part("run_row.html.j2", links, row=row, compared=compared, is_unread=row.key in unread)
        for row in shown_rows
    }
    chart = charts.comparison_chart([run_index.rows[key] for key in compared if key in run_index.rows], measure)
    pages = -(-len(rows) // ROWS_PER_PAGE)
    first_step = [] if rows or search_text else [NextStep("Start a first run", "evokernel run")]
    parts = {
        "chart": render_part("chart.html.j2", links, charts=[chart] if chart else []),
        "side": render_part("side_by_side.html.j2", links, compared=compared),
        "grid": render_part("cells.html.j2", links, cells=cells, tag="tr"),
        "empty": render_part("empty.html.j2", links, message="" if cells else NO_MATCH if search_text else NO_RUNS)
        + render_part("steps.html.j2", links, steps=first_step, is_open=True),
        "pager": render_part("pager.html.j2", links, view="runs", state=state, page=page, pages=pages),
    }
    return Page("Runs", "runs", state, parts, cells, "runs.html.j2")


def run_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """One run: its progress, its charts and every task."""
    run_tail = run_index.get(query.get("run", ""))
    selected = select_tasks(run_tail, query)
    page = min(parse_page_number(query, "page"), max(1, -(-len(selected) // TASKS_PER_PAGE)))
    state = {name: query.get(name, "") for name in ("category", "show", "sort", "text")}
    state = {"run": run_tail.key, **state, "page": str(page) if page > 1 else ""}
    names = tables.shorten_task_names([result.task.id for result in run_tail.results])
    cells, task_numbers = {}, run_tail.task_numbers
    for result in selected[(page - 1) * TASKS_PER_PAGE : page * TASKS_PER_PAGE]:
        url = links.url_for("task", run=run_tail.key, task=result.task.id)
        name = names[result.task.id]
        render_cell = partial(render_task_cell, name=name, url=url, links=links)
        html = run_tail.compute_once_for_task(f"cell {url}", result, render_cell)
        cells[f"task-{task_numbers[result.task.id]}"] = html
    chart_html = run_tail.compute_once(
        "charts", lambda: render_part("chart.html.j2", links, charts=charts.run_charts(run_tail.results, run_tail.attempts))
    )
    head = run_tail.compute_once("head", lambda: render_run_head(run_index, run_tail, links))
    latest = [(attempt, describe_outcome(attempt)) for attempt in run_tail.latest_attempts(LATEST_ATTEMPTS)]
    parts = {
        "head": head,
        "helped": run_tail.compute_once("helped", lambda: render_item_uses(run_index, run_tail, links)),
        "charts": chart_html,
        "latest": render_part("latest.html.j2", links, key=run_tail.key, latest=latest, message=describe_empty_run(run_tail)),
        "grid": render_part("cells.html.j2", links, cells=cells, tag="li"),
        "empty": render_part("empty.html.j2", links, message="" if cells or not run_tail.results else "No task matches."),
        "pager": render_part("pager.html.j2", links, view="run", state=state, page=page, pages=-(-len(selected) // TASKS_PER_PAGE)),
    }
    return Page(run_tail.key, "run", state, parts, cells, "run.html.j2")


def select_tasks(run_tail: RunTail, query: Query) -> list[TaskResult]:
    """The tasks that the URL selects, in the order that it asks for."""
    results: Sequence[TaskResult] = run_tail.results
    category, wanted_state, text = query.get("category", ""), query.get("show", ""), query.get("text", "").lower()
    results = [result for result in results if category in ("", metrics.task_category(result.task)) and text in result.task.id.lower()]
    results = [result for result in results if wanted_state in ("", task_state(result)) or wanted_state not in STATE_LABELS]
    return sorted(results, key=TASK_SORT_KEYS.get(query.get("sort", ""), TASK_SORT_KEYS[""]))


def task_state(result: TaskResult) -> str:
    """The state of a task in one word."""
    return "correct" if result.is_solved else "compiled" if result.is_compiled else "failed" if result.attempts else "waiting"


def describe_outcome(attempt: Any) -> str:
    """The outcome of an attempt in a few words."""
    outcome = attempt.outcome
    return tables.failure_reason(outcome) if not outcome.feasible else formatting.format_latency(outcome.latency_us)


def render_task_cell(result: TaskResult, name: str, url: str, links: Links) -> Any:
    """One task in the grid."""
    latencies, state = result.best_latencies(), task_state(result)
    sparkline = svg.draw_sparkline(latencies, f"best latency over {formatting.format_count(len(latencies), 'attempt')}")
    return render_part(
        "task_cell.html.j2", links, result=result, name=name, url=url, state=state, state_label=STATE_LABELS[state], sparkline=sparkline
    )


def render_run_head(run_index: RunIndex, run_tail: RunTail, links: Links) -> Any:
    """The head of a run page: configuration, progress and totals."""
    results, attempts = run_tail.results, run_tail.attempts
    totals = tables.run_totals(results, metrics.elapsed_s(attempts), "first to last attempt") if run_tail.run else []
    planned = count_planned_attempts(run_tail.run, results) if run_tail.run else 0
    row, folder = summarize_run(run_tail), shown_folder(run_tail, links)
    return render_part(
        "run_head.html.j2",
        links,
        row=row,
        run=run_tail.run,
        problems=run_tail.problems,
        totals=totals,
        attempt_count=len(attempts),
        planned=planned,
        bank=run_index.bank_key(run_tail),
        incidents=group_incidents(run_tail.incidents),
        sessions=run_tail.sessions,
        endings=ENDINGS,
        max_incidents=MAX_INCIDENTS,
        steps=next_steps.run_steps(folder, run_tail.run.config, row.state, results) if run_tail.run else [],
        is_open=True,
    )


def shown_folder(run_tail: RunTail, links: Links) -> Path:
    """The folder of a run in commands; exported pages, which travel, name it without the folders above it."""
    return Path(run_tail.folder.name) if links.is_static else run_tail.folder


def describe_empty_run(run_tail: RunTail) -> str:
    """Why a run has no attempts yet."""
    state = summarize_run(run_tail).state.name if run_tail.run else "damaged"
    return NO_ATTEMPT_YET if state in ("running", "unfinished") else NO_ATTEMPT


def has_unread_runs(run_index: RunIndex) -> bool:
    """Whether some runs of the list were not read yet."""
    return bool(run_index.unread_keys())


def run_version(run_index: RunIndex, query: Query) -> object:
    """A value that changes when the page of a run may change."""
    return run_index.get(query.get("run", "")).version


def runs_version(run_index: RunIndex, query: Query) -> object:
    """A value that changes when the list may change; refreshes the runs that were read before."""
    for key in run_index.rows:
        run_index.summary_row(key)
    return tuple((key, run_index.row_stamps.get(key)) for key in run_index.runs)
