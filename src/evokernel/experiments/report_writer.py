"""Writes the report of an experiment: `experiment.md`, `experiment.json`, a self-contained page `experiment.html`, and the plots."""

from __future__ import annotations

import json
from collections.abc import Sequence

from evokernel.core import paths
from evokernel.experiments import result_tables
from evokernel.experiments.plots import draw_plots
from evokernel.experiments.results import Results
from evokernel.experiments.summary import summarize_results
from evokernel.reports.page import load_template
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Table

FIRST_PLOTS = ("arms", "curve-", "rates-")
ROUND_PLOTS = ("failures", "roles", "value", "cost")
RATE_TABLES = ("the search", "compiled and correct", "comparison of arms")


def write_report_folder(results: Results) -> list[Table]:
    """Write all files of the report and return its tables."""
    folder, tables = results.folder, result_tables.build_tables(results)
    plots = draw_plots(results, folder)
    paths.write_text(folder / "experiment.md", render_markdown(results, tables, plots))
    paths.write_text(
        folder / "experiment.json",
        json.dumps(result_tables.results_to_json(results) | {"summary": summarize_results(results)}, indent=1) + "\n",
    )
    paths.write_text(folder / "experiment.html", render_html(results, tables, plots))
    return tables


def render_markdown(results: Results, tables: Sequence[Table], plots: Sequence[Plot]) -> str:
    """Return the report as Markdown."""
    spec = results.spec
    head = [f"# {spec.title}", "", spec.description, "", *summarize_results(results), "", result_tables.protocol_sentence(results), ""]
    images = [f"![{plot.title}]({plot.name}.svg)\n" for plot in plots]
    first = [image for plot, image in zip(plots, images) if plot.name.startswith(FIRST_PLOTS)]
    rest = [image for image in images if image not in first]
    ending = [
        *(f"Environment: {line}." for line in result_tables.environment_lines(results)),
        "",
        *([f"`{results.command}`", ""] if results.command else []),
    ]
    return "\n".join([*head, *first, *map(table_to_markdown, tables), *rest, *ending])


def render_html(results: Results, tables: Sequence[Table], plots: Sequence[Plot]) -> str:
    """Return the report as one HTML page."""
    from markupsafe import Markup

    svg_plots = [(plot, Markup(plot.svg)) for plot in plots]
    rate_tables = [table for table in tables if table.title.partition(": ")[2] in RATE_TABLES]
    return load_template("experiment.html.j2").render(
        spec=results.spec,
        summary=summarize_results(results),
        protocol=result_tables.protocol_sentence(results),
        first_plots=[pair for pair in svg_plots if pair[0].name.startswith(FIRST_PLOTS)],
        figure_plots=[pair for pair in svg_plots if not pair[0].name.startswith((*FIRST_PLOTS, *ROUND_PLOTS))],
        round_plots=[pair for pair in svg_plots if pair[0].name in ROUND_PLOTS],
        rate_tables=rate_tables,
        other_tables=[table for table in tables if table not in rate_tables],
        command=results.command,
        environments=result_tables.environment_lines(results),
        runs=[run.folder.name for run in results.runs],
    )


def table_to_markdown(table: Table) -> str:
    """Return a table with its title and caption as Markdown."""
    lines = [f"## {table.title}", ""] if table.title else []
    lines += ["| " + " | ".join(column.name for column in table.columns) + " |", "|---" * len(table.columns) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.format_rows()]
    return "\n".join([*lines, "", *([table.caption, ""] if table.caption else [])])
