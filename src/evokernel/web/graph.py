"""The emergent curriculum of a run (Figure 6): what an operator's first solve goes back to."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from evokernel.experiments.figures import curriculum
from evokernel.experiments.figures.curriculum import Solve
from evokernel.reports.tables import short_names
from evokernel.web.render import Links, Page, Query, part
from evokernel.web.run_index import Shelf
from evokernel.web.svg import Scale, at, el

MOST_NODES = 60
HIGH, NAMES, WIDTH = 26, 190, 860


def graph(shelf: Shelf, query: Query, links: Links) -> Page:
    """The operator that is asked for, else the one that goes back to most."""
    followed = shelf.get(query.get("run", ""))
    known = followed.once("solves", lambda: curriculum.solves(followed.found))
    asked = query.get("task", "")
    task = asked or max(known, key=lambda one: (len(curriculum.lineage(known, one)), one), default="")
    svg, count = drawn(known, task, followed.key, links) if task in known else (None, 0)
    cut = MOST_NODES if count >= MOST_NODES else 0
    tables = curriculum.tables({"This run": followed.found}) if known else []
    parts = {
        "head": part("graph_head.html.j2", links, key=followed.key),
        "graph": part("graph_drawn.html.j2", links, svg=svg, task=task, count=count, cut=cut),
        "table": part("table.html.j2", links, table=tables[0] if tables else None),
    }
    return Page(f"Curriculum of {followed.key}", "graph", {"run": followed.key, "task": task}, parts, layout="graph.html.j2")


def drawn(known: Mapping[str, Solve], root: str, key: str, links: Links) -> tuple[Markup | None, int]:
    """A row for each operator at the attempt that solved it, and how many there are besides the root."""
    depth = curriculum.lineage(known, root)
    count = len(depth) - 1
    if not count:
        return None, 0
    near = dict(sorted(depth.items(), key=lambda pair: (pair[1], pair[0]))[:MOST_NODES])
    names = short_names(list(near))
    ordered = sorted(near, key=lambda task: (known[task].round, -near[task], task))
    rounds = [known[task].round for task in ordered]
    x = Scale(min(rounds), max(max(rounds), min(rounds) + 1), NAMES + 20, WIDTH - 20)
    rows = {task: order * HIGH + 16 for order, task in enumerate(ordered)}
    marks = [el("defs", el("marker", el("path", d="M0 0L8 4L0 8z", class_="head"), id="arrow", viewBox="0 0 8 8", refX=8, refY=4,
                           markerWidth=7, markerHeight=7, orient="auto"))]  # fmt: skip
    for task in ordered:
        for other in known[task].shown:
            if other in rows:
                marks.append(arrow(x(known[other].round), rows[other], x(known[task].round), rows[task]))
    for task in ordered:
        marks.append(
            operator(known[task], names[task], x(known[task].round), rows[task], task == root, links.to("task", run=key, task=task))
        )
    height = len(ordered) * HIGH + 34
    for tick in x.ticks():
        if tick == int(tick):
            marks.append(el("text", f"{tick:g}", x=at(x(tick)), y=height - 20, text_anchor="middle"))
    marks.append(el("text", "attempt of the first solve", x=at((NAMES + WIDTH) / 2), y=height - 4, text_anchor="middle"))
    label = f"What {root} goes back to"
    return el(
        "svg", *marks, viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height, class_="curriculum", role="group", aria_label=label
    ), count


def arrow(x1: float, y1: float, x2: float, y2: float) -> Markup:
    """From what was shown to what it was shown for, bent so that neighbours do not cover each other."""
    bend = (x1 + x2) / 2
    d = f"M{at(x1 + 6)} {at(y1)}C{at(bend)} {at(y1)} {at(bend)} {at(y2)} {at(x2 - 8)} {at(y2)}"
    return el("path", d=d, class_="arrow", marker_end="url(#arrow)")


def operator(solve: Solve, name: str, x: float, y: float, is_root: bool, address: str) -> Markup:
    """A point with its name at the left."""
    told = f"{solve.task}: first solved by attempt {solve.round}, with {len(solve.shown)} solved operators in view"
    short = name if len(name) <= 26 else name[:25] + "…"
    text = el("text", short, x=NAMES, y=at(y + 4), text_anchor="end")
    mark = el("g", el("title", told), text, el("circle", cx=at(x), cy=at(y), r=6), class_=f"operator{' root' if is_root else ''}")
    return el("a", mark, href=address, aria_label=told) if address else mark
