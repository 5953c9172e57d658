"""The curriculum page (Figure 6 of the paper): which earlier solved operators helped to solve an operator first."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from evokernel.experiments.figures import curriculum
from evokernel.experiments.figures.curriculum import FirstSolve
from evokernel.reports.formatting import format_count
from evokernel.reports.tables import shorten_task_names
from evokernel.web.render import Links, Page, Query, render_part
from evokernel.web.run_index import RunIndex
from evokernel.web.svg import Scale, element, format_coordinate, format_point

MAX_NODES = 60
ROW_HEIGHT, NAME_WIDTH, WIDTH = 26, 190, 860


def curriculum_page(run_index: RunIndex, query: Query, links: Links) -> Page:
    """The page for the requested operator, or for the operator with the longest lineage."""
    run_tail = run_index.get(query.get("run", ""))
    solves = run_tail.compute_once("solves", lambda: curriculum.find_first_solves(run_tail.results))
    requested_task = query.get("task", "")
    task = requested_task or max(solves, key=lambda one: (len(curriculum.trace_lineage(solves, one)), one), default="")
    svg, count = draw_curriculum(solves, task, run_tail.key, links) if task in solves else (None, 0)
    drawn_limit = MAX_NODES if count >= MAX_NODES else 0
    tables = curriculum.build_tables({"This run": run_tail.results}) if solves else []
    parts = {
        "head": render_part("graph_head.html.j2", links, key=run_tail.key),
        "graph": render_part("graph_image.html.j2", links, svg=svg, task=task, count=count, drawn_limit=drawn_limit),
        "table": render_part("table.html.j2", links, table=tables[0] if tables else None),
    }
    return Page(f"Curriculum of {run_tail.key}", "graph", {"run": run_tail.key, "task": task}, parts, layout="graph.html.j2")


def draw_curriculum(solves: Mapping[str, FirstSolve], root: str, run_key: str, links: Links) -> tuple[Markup | None, int]:
    """The graph with one row per operator, placed at the attempt that first solved it, and the number of operators without the root."""
    depth = curriculum.trace_lineage(solves, root)
    count = len(depth) - 1
    if not count:
        return None, 0
    nearest = dict(sorted(depth.items(), key=lambda pair: (pair[1], pair[0]))[:MAX_NODES])
    names = shorten_task_names(list(nearest))
    tasks = sorted(nearest, key=lambda task: (solves[task].round, -nearest[task], task))
    rounds = [solves[task].round for task in tasks]
    x = Scale(min(rounds), max(max(rounds), min(rounds) + 1), NAME_WIDTH + 20, WIDTH - 20)
    row_y = {task: order * ROW_HEIGHT + 16 for order, task in enumerate(tasks)}
    head = element("path", d="M0 0L8 4L0 8z", class_="head")
    size = {"viewBox": "0 0 8 8", "refX": 8, "refY": 4, "markerWidth": 7, "markerHeight": 7}
    marks = [element("defs", element("marker", head, id="arrow", **size, orient="auto"))]
    for task in tasks:
        for other in solves[task].shown_tasks:
            if other in row_y:
                marks.append(draw_arrow(x(solves[other].round), row_y[other], x(solves[task].round), row_y[task]))
    for task in tasks:
        marks.append(
            draw_operator(
                solves[task], names[task], x(solves[task].round), row_y[task], task == root, links.url_for("task", run=run_key, task=task)
            )
        )
    height = len(tasks) * ROW_HEIGHT + 34
    for tick in x.ticks():
        if tick == int(tick):
            marks.append(element("text", f"{tick:g}", x=format_coordinate(x(tick)), y=height - 20, text_anchor="middle"))
    marks.append(
        element("text", "attempt that first solved it", x=format_coordinate((NAME_WIDTH + WIDTH) / 2), y=height - 4, text_anchor="middle")
    )
    label = f"Operators that helped to solve {root}"
    return element(
        "svg", *marks, viewBox=f"0 0 {WIDTH} {height}", width=WIDTH, height=height, class_="curriculum", role="group", aria_label=label
    ), count


def draw_arrow(x1: float, y1: float, x2: float, y2: float) -> Markup:
    """An arrow from a shown operator to the one it was shown for, bent so that neighbouring arrows do not overlap."""
    bend = (x1 + x2) / 2
    d = f"M{format_point(x1 + 6, y1)}C{format_point(bend, y1)} {format_point(bend, y2)} {format_point(x2 - 8, y2)}"
    return element("path", d=d, class_="arrow", marker_end="url(#arrow)")


def draw_operator(solve: FirstSolve, name: str, x: float, y: float, is_root: bool, url: str) -> Markup:
    """A point with the operator's name at the left."""
    description = (
        f"{solve.task}: first solved by attempt {solve.round}, with {format_count(len(solve.shown_tasks), 'solved operator')} in the prompt"
    )
    short = name if len(name) <= 26 else name[:25] + "…"
    text = element("text", short, x=NAME_WIDTH, y=format_coordinate(y + 4), text_anchor="end")
    group = element(
        "g",
        element("title", description),
        text,
        element("circle", cx=format_coordinate(x), cy=format_coordinate(y), r=6),
        class_=f"operator{' root' if is_root else ''}",
    )
    return element("a", group, href=url, aria_label=description) if url else group
