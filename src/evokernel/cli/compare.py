"""`evokernel compare`: compares runs side by side."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path(path_type=Path))
@json_option
def command(folders: tuple[Path, ...], as_json: bool) -> None:
    """Compare runs side by side, each with the first one and paired by task: correct kernels, latency, attempts and cost.

    \b
    Examples:
      evokernel compare runs/value runs/passk
      evokernel compare runs/before runs/after --json

    Intervals are 95 % confidence intervals over tasks. Chance between runs with other seeds is not covered: 'evokernel
    experiment' repeats runs for that. The dashboard has the same comparison at /compare.
    """
    from evokernel.core.run import Run
    from evokernel.experiments.run_comparison import compare_runs, comparison_json, open_run, pairs_table, runs_table, tasks_table
    from evokernel.reports.text_tables import format_report_table

    comparison = compare_runs([open_run(str(folder), Run.open(folder)) for folder in folders])
    if as_json:
        print_json(comparison_json(comparison))
        return
    for table in (runs_table(comparison), pairs_table(comparison), tasks_table(comparison)):
        print_text(format_report_table(table) + "\n")
