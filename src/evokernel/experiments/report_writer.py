"""An experiment's folder: `experiment.md`, `experiment.json`, one self-contained page, and the plots."""

from __future__ import annotations

import json
from collections.abc import Sequence

from evokernel.core.run import atomic_write
from evokernel.experiments import result_tables
from evokernel.experiments.plots import drawings
from evokernel.experiments.results import Results
from evokernel.experiments.summary import summary
from evokernel.reports.page import template
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Table

FOREMOST = ("curve-", "rates-")
BY_ROUND = ("failures", "roles", "worth", "spent")


def write(results: Results) -> list[Table]:
    """All of them; gives the tables."""
    folder, tables = results.folder, result_tables.tables(results)
    plots = drawings(results, folder)
    atomic_write(folder / "experiment.md", text(results, tables, plots))
    atomic_write(folder / "experiment.json", json.dumps(result_tables.figures(results) | {"summary": summary(results)}, indent=1) + "\n")
    atomic_write(folder / "experiment.html", page(results, tables, plots))
    return tables


def text(results: Results, tables: Sequence[Table], plots: Sequence[Plot]) -> str:
    plan = results.plan
    head = [f"# {plan.title}", "", plan.about, "", *summary(results), "", result_tables.protocol(results), ""]
    images = [f"![{plot.title}]({plot.name}.svg)\n" for plot in plots]
    first = [image for plot, image in zip(plots, images) if plot.name.startswith(FOREMOST)]
    rest = [image for image in images if image not in first]
    made = [
        *(f"Made with: {line}." for line in result_tables.versions(results)),
        "",
        *([f"`{results.command}`", ""] if results.command else []),
    ]
    return "\n".join([*head, *first, *map(markdown, tables), *rest, *made])


def page(results: Results, tables: Sequence[Table], plots: Sequence[Plot]) -> str:
    """For a browser, from one file."""
    from markupsafe import Markup

    drawn = [(plot, Markup(plot.svg)) for plot in plots]
    rates = [table for table in tables if table.title.partition(": ")[2] in ("compiled and correct", "arms against each other")]
    return template("experiment.html.j2").render(
        plan=results.plan,
        summary=summary(results),
        protocol=result_tables.protocol(results),
        foremost=[pair for pair in drawn if pair[0].name.startswith(FOREMOST)],
        special=[pair for pair in drawn if not pair[0].name.startswith((*FOREMOST, *BY_ROUND))],
        by_round=[pair for pair in drawn if pair[0].name in BY_ROUND],
        rates=rates,
        tables=[table for table in tables if table not in rates],
        command=results.command,
        versions=result_tables.versions(results),
        runs=[run.folder.name for run in results.runs],
    )


def markdown(table: Table) -> str:
    """A table with its title and what is to be said of it."""
    lines = [f"## {table.title}", ""] if table.title else []
    lines += ["| " + " | ".join(column.name for column in table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.shown()]
    return "\n".join([*lines, "", *([table.caption, ""] if table.caption else [])])
