"""A run as a folder of pages that open from disk: no server, no network, nothing that is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.run import atomic_write
from evokernel.reports.metrics import Tried
from evokernel.web import graph, runs, task
from evokernel.web.render import HERE, Links, Page, whole
from evokernel.web.run_index import Shelf
from evokernel.web.run_tail import Followed

STATIC = ("web.css", "theme.js", "web.js")
MARK = "evokernel-web-export"
"""A file that says that a folder is ours to write into."""


class FileLinks(Links):
    """Views as files of one folder; what was not exported is not linked."""

    is_static = True
    assets = ""

    def __init__(self, followed: Followed, solved: set[str]) -> None:
        self.places = followed.places
        self.attempts = {tried.task.id: len(tried.attempts) for tried in followed.found}
        self.solved = solved

    def to(self, view: str, /, **state: object) -> str:
        """The file of a view."""
        place = self.places.get(str(state.get("task", "")))
        page = f"-p{state['page']}" if str(state.get("page") or "1") != "1" else ""
        if view == "run":
            return f"index{page}.html"
        if view == "task" and place is not None:
            asked = str(state.get("attempt", "")).rpartition("/")[2]
            known = asked.isdecimal() and int(asked) < self.attempts[str(state["task"])]
            return f"task-{place}-{asked}.html" if known else f"task-{place}{page}.html"
        if view == "graph":
            return f"graph-{place}.html" if place is not None and state["task"] in self.solved else "graph.html"
        return ""


def export(shelf: Shelf, key: str, out: Path) -> int:
    """Writes every page of a run to a folder; gives how many."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not (out / MARK).is_file():
        raise UserError(f"{out} is not empty: name a new folder")
    followed = shelf.get(key)
    if followed.run is None:
        raise UserError(f"run '{key}' cannot be exported: {'; '.join(followed.notes)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in STATIC:
            shutil.copyfile(HERE / "static" / name, out / name)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}; name another folder") from error
    atomic_write(out / MARK, "Made by evokernel web --export; written over by the next one.\n")
    solved = {tried.task.id for tried in followed.found if tried.solved}
    links = FileLinks(followed, solved)
    return sum(write(out / name, page, links) for name, page in pages(shelf, followed, links))


def pages(shelf: Shelf, followed: Followed, links: FileLinks) -> Iterator[tuple[str, Page]]:
    """Every view of the run in every state that it is linked in."""
    here = {"run": followed.key}
    for number in range(1, max(1, -(-len(followed.found) // runs.CELLS)) + 1):
        yield links.to("run", page=number), runs.run(shelf, {**here, "page": str(number)}, links)
    yield "graph.html", graph.graph(shelf, here, links)
    for tried in followed.found:
        yield from task_pages(shelf, here, tried, links)
        if tried.task.id in links.solved:
            yield links.to("graph", task=tried.task.id), graph.graph(shelf, {**here, "task": tried.task.id}, links)


def task_pages(shelf: Shelf, here: dict[str, str], tried: Tried, links: FileLinks) -> Iterator[tuple[str, Page]]:
    """A task: its best attempt, every page of its list, and every attempt by itself."""
    asked = {**here, "task": tried.task.id}
    for number in range(1, max(1, -(-len(tried.attempts) // task.ROWS)) + 1):
        yield links.to("task", task=tried.task.id, page=number), task.task(shelf, {**asked, "page": str(number)}, links)
    for number in range(len(tried.attempts)):
        yield links.to("task", task=tried.task.id, attempt=number), task.task(shelf, {**asked, "attempt": str(number)}, links)


def write(path: Path, page: Page, links: Links) -> int:
    atomic_write(path, whole(page, links, mark="", categories=[], operators=[]))
    return 1
