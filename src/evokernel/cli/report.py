"""`evokernel report`: tables, plots and the HTML report of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_pairs, format_table, json_option, print_json, print_text, terminal_width, wrap_text
from evokernel.core.errors import InfraError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.records import Attempt
    from evokernel.core.run import Run
    from evokernel.reports.page import ItemValues
    from evokernel.reports.tables import Table

RUNS = Path("runs")


@click.command(epilog=TERMS_EPILOG)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--list", "list_runs", is_flag=True, help="List the runs in FOLDER instead. [runs]")
@click.option("--out", type=click.Path(path_type=Path), metavar="PATH", help="Path of the HTML report. [FOLDER/report.html]")
@json_option
def command(folder: Path | None, list_runs: bool, out: Path | None, as_json: bool) -> None:
    """Print the tables of a run and write its plots and its self-contained HTML report. Without FOLDER, use the latest run in ./runs.

    \b
    Examples:
      evokernel report
      evokernel report runs/my-run --out my-run.html
      evokernel report --list --json

    Plots go to FOLDER/plots, or to PATH-plots next to the report, as SVG and PNG. The report needs no network.
    """
    if list_runs:
        print_run_list(folder or RUNS, as_json)
        return
    from evokernel.core.run import Run
    from evokernel.reports import metrics
    from evokernel.reports.summary import summarize_run

    run = Run.open(folder or latest_run(RUNS))
    attempts = run.attempts()
    seconds = metrics.elapsed_s(attempts)
    report_path, error_to_raise = None, None
    try:
        report_path = write_report_page(run, attempts, out)
    except UserError as error:  # for example a full or read-only disk: print the tables anyway
        error_to_raise = error
    if as_json:
        print_json(summarize_run(run, attempts, seconds, report_path))
    else:
        print_run(run, attempts, seconds, report_path)
    if error_to_raise:
        raise error_to_raise


def print_run(run: Run, attempts: Sequence[Attempt], seconds: float | None, report_path: Path | None) -> None:
    """Print every table, then the totals."""
    from evokernel.reports import formatting, metrics, tables

    results = metrics.collect_results(run, attempts)
    print_text(f"{run.config.id}: {run.folder}, backend {formatting.format_backend(run.config.plugin_name('backend'), run.environment)}\n")
    for table in (
        tables.operator_table(results),
        tables.category_table(results),
        tables.fast_p_table(results),
        tables.failure_table(results),
    ):
        if table.rows:
            print_text(format_report_table(table) + "\n")
    print_text(format_pairs(tables.run_totals(results, seconds, "first to last attempt")))
    print_text("\n" + format_pairs([("report", str(report_path or "not written")), ("next step", f"evokernel export {run.folder}")]))


def format_report_table(table: Table, title: bool = True) -> str:
    """A report table as text; drops optional columns if the terminal is too narrow."""
    body = format_table(
        [column.name for column in table.columns], table.format_rows(), [column.is_right_aligned for column in table.columns]
    )
    width, narrower_table = terminal_width(), table.drop_column()
    if width and narrower_table and max(map(len, body.splitlines())) > width:
        return format_report_table(narrower_table, title)
    head = f"{table.title}\n" if title else ""
    return head + body + (f"\n{wrap_text(table.caption)}" if table.caption else "")


def write_report_page(run: Run, attempts: Sequence[Attempt], out: Path | None = None) -> Path:
    """Write plots and report; item values come from the current state of the run's memory bank."""
    from evokernel.reports.page import write_report

    return write_report(run, attempts, load_item_values(run), out)


def load_item_values(run: Run) -> list[ItemValues] | None:
    """Items and values for this run's backend; None if the bank cannot be read, for example because it was moved."""
    from evokernel.memory.bank import Bank
    from evokernel.reports.page import ItemValues

    try:
        with Bank.open_reader(bank_location(run)) as bank:
            values_by_stage = {(one.item, one.stage): one for one in bank.list_values()}
            items = []
            for entry in bank.find_items(backend=run.config.plugin_name("backend")):
                first, second = (values_by_stage.get((entry.item.id, stage)) for stage in ("draft", "refine"))
                items.append(
                    ItemValues(
                        id=entry.item.id,
                        kind=entry.item.kind,
                        title=entry.item.title,
                        q1=first.q if first else None,
                        visits1=first.visits if first else 0,
                        q2=second.q if second else None,
                        visits2=second.visits if second else 0,
                    )
                )
            return items
    except (UserError, InfraError) as error:
        print_text(f"note: {error}", err=True)
        return None


def bank_location(run: Run) -> BankLocation:
    """The location of the memory bank of a run."""
    from evokernel.core.bank_uri import parse_location

    return run.folder / "memory.db" if run.config.fresh else parse_location(run.config.memory)


def latest_run(runs: Path) -> Path:
    """The run folder whose settings changed last."""
    folders = list_run_folders(runs)
    if not folders:
        raise UserError(f"no runs in ./{runs}. Name a run folder, or start a run with 'evokernel run'.")
    return max(folders, key=lambda folder: (folder / "run.toml").stat().st_mtime)


def list_run_folders(runs: Path) -> list[Path]:
    """Every run folder directly inside a folder, sorted by name."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if (folder / "run.toml").is_file())


def print_run_list(runs: Path, as_json: bool) -> None:
    """Print one row per run."""
    rows = [run_record(folder) for folder in list_run_folders(runs)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        print_text(f"No runs in {runs}.")
        return
    header = ["folder", "tasks", "attempts", "correct", "backend", "generator", "policy", "state"]
    cells = [["–" if line[name] is None else str(line[name]) for name in header] for line in rows]
    print_text(format_table(header, cells, [False, True, True, True]))


def run_record(folder: Path) -> dict[str, Any]:
    """The main figures of a run; a run that cannot be read is listed with the reason."""
    from evokernel.core.run import Run
    from evokernel.reports import metrics

    unknown: dict[str, Any] = dict.fromkeys(("tasks", "attempts", "correct", "backend", "generator", "policy"))
    try:
        run = Run.open(folder)
        attempts = run.attempts()
    except UserError as error:
        return {"folder": str(folder), **unknown, "state": f"damaged: {error}"}
    is_complete = run.is_complete(attempts)
    correct = metrics.count_correct(metrics.collect_results(run, attempts))
    parts = {part: run.config.plugin_name(part) for part in ("backend", "generator", "policy")}
    figures = {"tasks": len(run.tasks), "attempts": len(attempts), "correct": correct}
    return {"folder": str(folder), **unknown, **figures, **parts, "state": "finished" if is_complete else "unfinished"}
