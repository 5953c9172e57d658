"""`evokernel report`: tables, plots and the HTML report of a run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.output import TERMS_EPILOG, format_pairs, format_table, json_option, print_json, print_text, wrap_text
from evokernel.core.errors import UserError
from evokernel.reports.next_steps import terminal_steps
from evokernel.reports.text_tables import format_report_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evokernel.core.records import Attempt
    from evokernel.core.run import Run
    from evokernel.reports.run_report import RunReport

RUNS = Path("runs")


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, metavar="[FOLDER]", type=click.Path(path_type=Path))
@click.option("--list", "list_runs", is_flag=True, help="List the runs in FOLDER instead. [runs]")
@click.option("--out", type=click.Path(path_type=Path), metavar="PATH", help="Path of the HTML report. [FOLDER/report.html]")
@json_option
def command(folders: tuple[Path, ...], list_runs: bool, out: Path | None, as_json: bool) -> None:
    """Print the tables of a run and write its plots and its self-contained HTML report. Without FOLDER, use the latest run in ./runs.

    \b
    Examples:
      evokernel report
      evokernel report runs/my-run --out my-run.html
      evokernel report --list --json

    Plots go to FOLDER/plots, or to PATH-plots next to the report, as SVG and PNG. The report needs no network.
    """
    if len(folders) > 1:
        raise UserError(f"report takes one run. To compare runs: {shlex.join(['evokernel', 'compare', *map(str, folders)])}")
    folder = folders[0] if folders else None
    if list_runs:
        print_run_list(folder or RUNS, as_json)
        return
    from evokernel.core.run import Run
    from evokernel.reports import metrics
    from evokernel.reports.run_list import latest_run
    from evokernel.reports.summary import summarize_run

    run = Run.open(folder or latest_run(RUNS))
    attempts = run.attempts()
    seconds = metrics.elapsed_s(attempts)
    report = write_report_page(run, attempts, out)
    if as_json:
        print_json(summarize_run(run, attempts, seconds, report.path))
    else:
        print_run(run, attempts, seconds, report.path)
    if report.error:
        raise report.error


def print_run(run: Run, attempts: Sequence[Attempt], seconds: float | None, report_path: Path | None) -> None:
    """Print every table, then the totals."""
    from evokernel.reports import formatting, metrics, page, tables

    results = metrics.collect_results(run, attempts)
    print_text(f"{run.config.id}: {run.folder}, backend {formatting.format_backend(run.config.plugin_name('backend'), run.environment)}\n")
    for table in (tables.operator_table(results), *page.other_tables(results)):
        if table.rows:
            print_text(format_report_table(table) + "\n")
    print_text(format_pairs(tables.run_totals(results, seconds, "first to last attempt")))
    next_steps = terminal_steps(run.folder, run.config.plugin_name("generator"), any(result.is_solved for result in results))
    print_text("\n" + format_pairs([("report", str(report_path or "not written")), *next_steps]))


def write_report_page(run: Run, attempts: Sequence[Attempt], out: Path | None = None) -> RunReport:
    """Write the report page; print a note if it lacks the values of memory items."""
    from evokernel.reports.run_report import write_run_report

    report = write_run_report(run, attempts, out)
    if report.note:
        print_text(f"note: {report.note}", err=True)
    return report


def print_run_list(runs: Path, as_json: bool) -> None:
    """Print one row per run."""
    from evokernel.reports.run_list import list_run_folders, run_row

    rows = [run_row(folder) for folder in list_run_folders(runs)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        print_text(f"No runs in {runs}.")
        return
    header = ["folder", "tasks", "attempts", "correct", "backend", "generator", "policy", "state"]
    cells = [["–" if line[name] is None else str(line[name]) for name in header] for line in rows]
    print_text(format_table(header, cells, [False, True, True, True]))
    for row in rows:
        if row["reason"]:
            print_text(wrap_text(f"{row['folder']}, {row['state']}: {row['reason']}"))
