"""The page Task: the lineage of its attempts, and one attempt in full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.reports import formatting, metrics, opportunities, tables
from evokernel.reports.metrics import TaskResult
from evokernel.reports.next_steps import kernel_steps, task_steps
from evokernel.reports.page import outcome_line, result_headline, result_notes
from evokernel.reports.tool_table import describe_trials
from evokernel.web import diff, lineage, roofline, svg
from evokernel.web.charts import Chart
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail, file_stamp, resolve_inside
from evokernel.web.runs import parse_page_number, shown_folder
from evokernel.web.shown_items import describe_context

ROWS_PER_PAGE = 60
MAX_TEXT_CHARS = 200_000
"""Characters of one prompt, reply or file that a page shows."""


class TextBlock(NamedTuple):
    """A prompt, a reply or a file."""

    name: str
    text: str
    omitted_chars: int
    """Number of characters left out."""


def find_task(run_index: RunIndex, query: Query) -> tuple[RunTail, TaskResult]:
    """A task of a run; raises UserError if there is none."""
    run_tail = run_index.get(query.get("run", ""))
    result = run_tail.task_result(query.get("task", ""))
    if result is None:
        raise UserError(f"run '{run_tail.key}' has no task '{query.get('task', '')}'.")
    return run_tail, result


def read_kernel_file(run_index: RunIndex, query: Query) -> str:
    """A file of an attempt's kernel; raises UserError if there is none."""
    _, result = find_task(run_index, query)
    number = requested_attempt(result, query, "attempt", "number")
    files = result.attempts[number].candidate.files if number is not None else {}
    if query.get("file", "") not in files:
        raise UserError(f"this attempt has no file '{query.get('file', '')}'.")
    return files[query["file"]]


def parse_attempt_number(result: TaskResult, text: str) -> int | None:
    """The attempt that a URL names by number or id."""
    last = text.rpartition("/")[2]
    number = int(last) if last.isdecimal() and len(last) < 7 else -1
    return number if 0 <= number < len(result.attempts) else None


def requested_attempt(result: TaskResult, query: Query, name: str, form_name: str) -> int | None:
    """The attempt that the URL asks for: by its id number, or by the number of the form, which counts from 1."""
    if query.get(form_name, "").isdecimal():
        return parse_attempt_number(result, str(int(query[form_name][:7]) - 1))
    return parse_attempt_number(result, query.get(name, ""))


def default_attempt(result: TaskResult) -> int | None:
    """The number of the best attempt, or of the last one if none is correct."""
    for count, attempt in enumerate(result.attempts):
        if attempt is result.best:
            return count
    return len(result.attempts) - 1 if result.attempts else None


def task_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """A task, one of its attempts, and the diff of that attempt with another."""
    run_tail, result = find_task(run_index, query)
    requested = requested_attempt(result, query, "attempt", "number")
    selected = requested if requested is not None else default_attempt(result)
    parents = lineage.parent_numbers(result.attempts)
    requested_other = requested_attempt(result, query, "with", "with_number")
    other = requested_other if requested_other is not None else parents[selected] if selected is not None else None
    page = parse_page_number(query, "page", 0)
    state = {
        "run": run_tail.key,
        "task": result.task.id,
        "attempt": text_or_empty(requested),
        "with": text_or_empty(requested_other),
        "page": text_or_empty(page or None),
    }

    def url_of(number: int) -> str:
        return links.url_for("task", run=run_tail.key, task=result.task.id, attempt=number)

    parts = {
        "head": render_task_head(run_tail, result, links),
        "path": render_part("chart.html.j2", links, charts=[one for one in [latency_chart(result, selected)] if one]),
        "tree": render_part(
            "tree.html.j2",
            links,
            tree=lineage.draw_tree(result, selected, url_of),
            attempt_count=len(result.attempts),
            max_nodes=lineage.MAX_NODES,
        ),
        "table": render_attempt_table(result, parents, selected, page, state, links),
        "attempt": render_attempt(run_index, run_tail, result, selected, parents, links) if selected is not None else Markup(""),
        "diff": render_diff(result, selected, other, links) if selected is not None else Markup(""),
    }
    return Page(result.task.id, "task", state, parts, layout="task.html.j2")


def render_task_head(run_tail: RunTail, result: TaskResult, links: Links) -> Markup:
    """The head of the page: result, category, work and reference."""
    failed_reevaluations = [
        (formatting.format_attempt(one.id), tables.failure_reason(result.reevaluations[one.id].outcome))
        for one in result.failed_reevaluations
    ]
    values = {
        "headline": result_headline(result),
        "category": metrics.task_category(result.task),
        "notes": result_notes(result),
        "steps": task_steps(shown_folder(run_tail, links), run_tail.run.config, result) if run_tail.run else [],
        "is_open": False,
    }
    return render_part("task_head.html.j2", links, key=run_tail.key, result=result, failed_reevaluations=failed_reevaluations, **values)


def text_or_empty(value: object) -> str:
    """The value as text; an empty string for None."""
    return "" if value is None else str(value)


def task_version(run_index: RunIndex, query: Query) -> object:
    """A value that changes when the attempts of the task change."""
    run_tail, result = find_task(run_index, query)
    facts = [one.outcome.feasible for one in result.attempts], run_tail.run is None, bank_stamps(run_index, run_tail)
    return len(result.attempts), tuple(result.reevaluations), *facts


def bank_stamps(run_index: RunIndex, run_tail: RunTail) -> object:
    """A value that changes when the bank file of a run changes: the loop updates values after it stores an attempt."""
    path = run_index.banks.get(run_index.bank_key(run_tail) or "")
    return [file_stamp(path.with_name(path.name + suffix)) for suffix in ("", "-wal")] if isinstance(path, Path) else None


def latency_chart(result: TaskResult, selected: int | None) -> Chart | None:
    """Latency of every correct attempt, the best so far, the baseline and the floor; attempts count from 1."""
    latencies = [(n, attempt.outcome.latency_us) for n, attempt in enumerate(result.attempts, start=1) if result.is_correct(attempt)]
    points = [(float(n), us) for n, us in latencies if us]
    if not points:
        return None
    best = [(float(n), us) for n, us in enumerate(result.best_latencies(), start=1) if us]
    last = float(max(len(result.attempts), 2))
    series = [svg.Series("best so far", best, 0, is_stepped=True)]
    if result.baseline_us:
        series.append(svg.Series(tables.baseline_heading([result]), [(1.0, result.baseline_us), (last, result.baseline_us)], 1))
    if result.floor_us:
        series.append(svg.Series("floor", [(1.0, result.floor_us), (last, result.floor_us)], 2))
    marks = [(float(n), us, "c4" if selected is not None and n == selected + 1 else "c3") for n, us in points]
    marks = marks if len(marks) <= 400 else [marks[n] for n in svg.spaced_indices(len(marks), 400)]
    chart = svg.draw_line_chart("Latency of every correct attempt", series, "attempt", "µs, logarithmic", log=True, dots=marks)
    if chart is None:
        return None
    names = svg.draw_legend(
        [*((line.css_class, line.name) for line in series), ("fill f3", "correct attempts"), ("fill f4", "selected attempt")]
    )
    return Chart("Latency", f"Times: {formatting.clock_label(metrics.clock_names(result.attempts))}.", chart, names)


def render_attempt_table(
    result: TaskResult, parents: Sequence[int | None], selected: int | None, page: int, state: dict[str, str], links: Links
) -> Markup:
    """The attempts, newest first, one page at a time."""
    pages = -(-len(result.attempts) // ROWS_PER_PAGE)
    page = min(page or 1, max(1, pages))
    numbers = range(len(result.attempts) - 1, -1, -1)[(page - 1) * ROWS_PER_PAGE : page * ROWS_PER_PAGE]
    children = lineage.children_by_parent(parents)
    rows = [(n, result.attempts[n], outcome_line(result.attempts[n]), parents[n], len(children.get(n, ()))) for n in numbers]
    return render_part("attempts.html.j2", links, rows=rows, selected=selected, state=state, page=page, pages=pages, result=result)


def render_attempt(
    run_index: RunIndex, run_tail: RunTail, result: TaskResult, selected: int, parents: Sequence[int | None], links: Links
) -> Markup:
    """One attempt: gates, profile, context, prompt, reply and kernel."""
    attempt, parent = result.attempts[selected], parents[selected]
    start = result.attempts[parent] if parent is not None else None
    reevaluation = result.reevaluations.get(attempt.id)
    files = {name: truncate(body)[0] for name, body in attempt.candidate.files.items()}
    table = opportunities.opportunity_table(attempt.outcome)
    return render_part(
        "attempt.html.j2",
        links,
        key=run_tail.key,
        result=result,
        number=selected,
        attempt=attempt,
        outcome_text=outcome_line(attempt),
        parent=parent,
        children=lineage.children_by_parent(parents).get(selected, []),
        context=describe_context(run_index, run_tail, attempt, start, links),
        reevaluation=reevaluation,
        is_best=attempt is result.best,
        texts=read_texts(run_tail, attempt),
        trials=describe_trials(attempt.tool_use) if attempt.tool_use else [],
        steps=kernel_steps(run_tail.run.config, attempt) if run_tail.run else [],
        opportunities=table.format_rows() if table else [],
        annotated_source=opportunities.annotate_source(files, attempt.outcome),
        roofline_image=roofline.draw_roofline(result.task, result, attempt.outcome),
        time_bars=roofline.draw_time_bars(result, attempt.outcome),
        interval=attempt.outcome.speedup_interval("incumbent"),
    )


def render_diff(result: TaskResult, selected: int, other: int | None, links: Links) -> Markup:
    """The diff of the selected kernel with another one; without another, a note."""
    old = result.attempts[other].candidate.files if other is not None else {}
    diffs = diff.diff_files(old, result.attempts[selected].candidate.files) if other is not None else []
    return render_part("diff.html.j2", links, diffs=diffs, number=selected, other=other)


def truncate(body: str) -> tuple[str, int]:
    """The first `MAX_TEXT_CHARS` characters, and the number of characters left out."""
    return body[:MAX_TEXT_CHARS], max(0, len(body) - MAX_TEXT_CHARS)


def read_texts(run_tail: RunTail, attempt: Attempt) -> list[TextBlock]:
    """Stored prompts and replies of an attempt, ordered by name."""
    folder = resolve_inside(run_tail.folder / "artifacts", attempt.id)
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix == ".md") if folder and folder.is_dir() else []
    except OSError:
        names = []
    order = sorted(names, key=lambda name: (name.partition(".")[0], not name.endswith(".prompt.md")))
    return [TextBlock(name, *truncate(body)) for name in order if (body := run_tail.read_artifact(attempt.id, name)) is not None]
