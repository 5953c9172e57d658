"""`evokernel report`: tables, plots and the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import draw, emit, folded, json_option, pairs, room, tell
from evokernel.core.errors import InfraError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.records import Attempt
    from evokernel.core.run import Run
    from evokernel.reports.page import Valued
    from evokernel.reports.tables import Table

RUNS = Path("runs")


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--list", "list_runs", is_flag=True, help="List the runs in FOLDER. [runs]")
@click.option("--out", type=click.Path(path_type=Path), metavar="PATH", help="Where the page goes. [FOLDER/report.html]")
@json_option
def command(folder: Path | None, list_runs: bool, out: Path | None, as_json: bool) -> None:
    """Tables, plots and one self-contained page of a run; of the latest in ./runs when none is named.

    \b
    Examples:
      evokernel report
      evokernel report runs/my-run --out my-run.html
      evokernel report --list --json

    Plots go to 'plots' in FOLDER, or to 'PATH-plots' beside the page, as SVG and PNG. The page needs no network and
    can be mailed.
    """
    if list_runs:
        listing(folder or RUNS, as_json)
        return
    from evokernel.core.run import Run
    from evokernel.reports import metrics
    from evokernel.reports.summary import summary

    run = Run.open(folder or latest(RUNS))
    attempts = run.attempts()
    seconds = metrics.span_s(attempts)
    path, trouble = None, None
    try:
        path = write_page(run, attempts, out)
    except UserError as error:  # a full or read-only disk, say: the figures are still worth telling
        trouble = error
    if as_json:
        emit(summary(run, attempts, seconds, path))
    else:
        tell_run(run, attempts, seconds, path)
    if trouble:
        raise trouble


def tell_run(run: Run, attempts: Sequence[Attempt], seconds: float | None, path: Path | None) -> None:
    """Every table, then the run in a few lines."""
    from evokernel.reports import formatting, metrics, tables

    found = metrics.of_run(run, attempts)
    tell(f"{run.config.id}: {run.folder}, backend {formatting.backend(run.config.plugin_name('backend'), run.facts)}\n")
    for table in (tables.operators(found), tables.categories(found), tables.fast(found), tables.failures(found)):
        if table.rows:
            tell(show(table) + "\n")
    tell(pairs(tables.totals(found, seconds, "first to last attempt")))
    tell(f"\nreport  {path or 'not written'}")


def show(table: Table, title: bool = True) -> str:
    """A table of the reports as text, without what can be spared where the terminal is too narrow for all of it."""
    body = draw([column.name for column in table.columns], table.shown(), [column.right for column in table.columns])
    columns, smaller = room(), table.narrower()
    if columns and smaller and max(map(len, body.splitlines())) > columns:
        return show(smaller, title)
    head = f"{table.title}\n" if title else ""
    return head + body + (f"\n{folded(table.caption)}" if table.caption else "")


def write_page(run: Run, attempts: Sequence[Attempt], out: Path | None = None) -> Path:
    """Draws plots and page; values come from the run's memory bank as it is now."""
    from evokernel.reports.page import write_report

    return write_report(run, attempts, bank_values(run), out)


def bank_values(run: Run) -> list[Valued] | None:
    """What the bank holds on this run's backend; None when it cannot be read (it may have been moved since)."""
    from evokernel.memory.bank import Bank
    from evokernel.reports.page import Valued

    try:
        with Bank.read(bank_path(run)) as bank:
            learned = {(one.item, one.stage): one for one in bank.standings()}
            found = []
            for entry in bank.entries(backend=run.config.plugin_name("backend")):
                first, second = (learned.get((entry.item.id, stage)) for stage in ("draft", "refine"))
                found.append(
                    Valued(
                        id=entry.item.id,
                        kind=entry.item.kind,
                        title=entry.item.title,
                        q1=first.q if first else None,
                        visits1=first.visits if first else 0,
                        q2=second.q if second else None,
                        visits2=second.visits if second else 0,
                    )
                )
            return found
    except (UserError, InfraError) as error:
        tell(f"note: {error}", err=True)
        return None


def bank_path(run: Run) -> BankLocation:
    """Where a run keeps what it learns."""
    from evokernel.core.bank_uri import parse_location

    return run.folder / "memory.db" if run.config.fresh else parse_location(run.config.memory)


def latest(runs: Path) -> Path:
    """The run whose journal changed last."""
    folders = run_folders(runs)
    if not folders:
        raise UserError(f"no runs in ./{runs}: name a run folder, or make one with 'evokernel run'")
    return max(folders, key=lambda folder: (folder / "run.toml").stat().st_mtime)


def run_folders(runs: Path) -> list[Path]:
    """Every run folder directly inside, by name."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if (folder / "run.toml").is_file())


def listing(runs: Path, as_json: bool) -> None:
    """One row per run."""
    rows = [row(folder) for folder in run_folders(runs)]
    if as_json:
        emit(rows)
        return
    if not rows:
        tell(f"no runs in {runs}")
        return
    header = ["folder", "tasks", "attempts", "correct", "backend", "generator", "policy", "state"]
    cells = [["–" if line[name] is None else str(line[name]) for name in header] for line in rows]
    tell(draw(header, cells, [False, True, True, True]))


def row(folder: Path) -> dict[str, Any]:
    """A run in a few figures; one that cannot be read is listed with the reason."""
    from evokernel.core.run import Run
    from evokernel.reports import metrics

    found: dict[str, Any] = dict.fromkeys(("tasks", "attempts", "correct", "backend", "generator", "policy"))
    try:
        run = Run.open(folder)
        attempts = run.attempts()
    except UserError as error:
        return {"folder": str(folder), **found, "state": f"damaged: {error}"}
    done = run.is_complete(attempts)
    correct = metrics.feasible(metrics.of_run(run, attempts))
    parts = {part: run.config.plugin_name(part) for part in ("backend", "generator", "policy")}
    figures = {"tasks": len(run.tasks), "attempts": len(attempts), "correct": correct}
    return {"folder": str(folder), **found, **figures, **parts, "state": "finished" if done else "unfinished"}
