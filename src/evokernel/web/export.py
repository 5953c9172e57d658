"""Writes a run as a folder of pages that open from disk, without a server or a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.reports.metrics import TaskResult
from evokernel.web import glossary, graph, runs, task
from evokernel.web.render import PACKAGE_FOLDER, Links, Page, render_page
from evokernel.web.run_index import RunIndex
from evokernel.web.run_tail import RunTail

STATIC = ("web.css", "theme.js", "web.js")
MARKER_FILE = "evokernel-web-export"
"""The file that marks a folder as written by this export, so that it may be overwritten."""


class FileLinks(Links):
    """Links between the files of one folder; a view that was not exported has no link."""

    is_static = True
    assets = ""

    def __init__(self, run_tail: RunTail, solved_tasks: set[str]) -> None:
        self.task_numbers = run_tail.task_numbers
        self.attempt_counts = {result.task.id: len(result.attempts) for result in run_tail.results}
        self.solved_tasks = solved_tasks

    def url_for(self, view: str, /, **state: object) -> str:
        """The file of a view, or an empty string if it was not exported."""
        task_number = self.task_numbers.get(str(state.get("task", "")))
        page_suffix = f"-p{state['page']}" if str(state.get("page") or "1") != "1" else ""
        if view == "glossary":
            return "glossary.html"
        if view == "run":
            return f"index{page_suffix}.html"
        if view == "task" and task_number is not None:
            attempt_text = str(state.get("attempt", "")).rpartition("/")[2]
            is_exported = attempt_text.isdecimal() and int(attempt_text) < self.attempt_counts[str(state["task"])]
            return f"task-{task_number}-{int(attempt_text) + 1}.html" if is_exported else f"task-{task_number}{page_suffix}.html"
        if view == "graph":
            return f"graph-{task_number}.html" if task_number is not None and state["task"] in self.solved_tasks else "graph.html"
        return ""


def export_run(run_index: RunIndex, key: str, out: Path) -> int:
    """Write every page of a run into a folder and return the number of pages."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not (out / MARKER_FILE).is_file():
        raise UserError(f"{out} is not empty. Name a new folder.")
    run_tail = run_index.get(key)
    if run_tail.run is None:
        raise UserError(f"cannot export run '{key}': {'; '.join(run_tail.problems)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in STATIC:
            shutil.copyfile(PACKAGE_FOLDER / "static" / name, out / name)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}. Name another folder.") from error
    paths.write_text(out / MARKER_FILE, "Written by evokernel web --export, which may overwrite this folder.\n")
    solved_tasks = {result.task.id for result in run_tail.results if result.is_solved}
    links = FileLinks(run_tail, solved_tasks)
    return sum(write_page(out / name, page, links) for name, page in render_pages(run_index, run_tail, links))


def render_pages(run_index: RunIndex, run_tail: RunTail, links: FileLinks) -> Iterator[tuple[str, Page]]:
    """Every page of the run, with its file name, for every state that some page links to."""
    query = {"run": run_tail.key}
    for number in range(1, max(1, -(-len(run_tail.results) // runs.TASKS_PER_PAGE)) + 1):
        yield links.url_for("run", page=number), runs.run_page(run_index, {**query, "page": str(number)}, links)
    yield "glossary.html", glossary.glossary_page(run_index, query, links)
    yield "graph.html", graph.curriculum_page(run_index, query, links)
    for result in run_tail.results:
        yield from render_task_pages(run_index, query, result, links)
        if result.task.id in links.solved_tasks:
            yield links.url_for("graph", task=result.task.id), graph.curriculum_page(run_index, {**query, "task": result.task.id}, links)


def render_task_pages(run_index: RunIndex, query: dict[str, str], result: TaskResult, links: FileLinks) -> Iterator[tuple[str, Page]]:
    """The pages of one task: its best attempt, every page of the attempt list, and every attempt."""
    task_query = {**query, "task": result.task.id}
    for number in range(1, max(1, -(-len(result.attempts) // task.ROWS_PER_PAGE)) + 1):
        yield links.url_for("task", task=result.task.id, page=number), task.task_page(run_index, {**task_query, "page": str(number)}, links)
    for number in range(len(result.attempts)):
        yield (
            links.url_for("task", task=result.task.id, attempt=number),
            task.task_page(run_index, {**task_query, "attempt": str(number)}, links),
        )


def write_page(path: Path, page: Page, links: Links) -> int:
    """Write one page and return 1, so that callers can count."""
    paths.write_text(path, render_page(page, links, mark="", categories=[], operators=[]))
    return 1
