"""`evokernel trajectories`: exports runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.labels import format_count


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Output file, which ends in .jsonl or .parquet."
)
@click.option("--correct-only", is_flag=True, help="Export only attempts that passed all gates.")
@json_option
def command(folders: tuple[Path, ...], out: Path, correct_only: bool, as_json: bool) -> None:
    """Export one row per attempt: prompt, context, reply, outcome, reward and lineage. docs/training-data.md explains the columns.

    \b
    Examples:
      evokernel trajectories runs/my-run --out attempts.jsonl
      evokernel trajectories runs/first runs/second --correct-only --out good.parquet
    """
    from evokernel.core.run import Run
    from evokernel.reports.trajectories import attempt_rows, write_rows

    runs = [Run.open(folder) for folder in folders]
    count = write_rows((row for run in runs for row in attempt_rows(run, correct_only)), out)
    if as_json:
        print_json({"file": str(out), "rows": count, "runs": [run.config.id for run in runs]})
    else:
        print_text(f"Wrote {format_count(count, 'attempt')} of {format_count(len(runs), 'run')} to {out}")
