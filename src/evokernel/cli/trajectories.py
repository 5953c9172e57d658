"""`evokernel trajectories`: runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import emit, json_option, tell


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Ends in .jsonl or .parquet.")
@click.option("--feasible", is_flag=True, help="Only attempts that passed all gates.")
@json_option
def command(folders: tuple[Path, ...], out: Path, feasible: bool, as_json: bool) -> None:
    """One row per attempt: prompt, what was shown, reply, verdict, reward, lineage. docs/training-data.md names the columns.

    \b
    Examples:
      evokernel trajectories runs/my-run --out attempts.jsonl
      evokernel trajectories runs/first runs/second --feasible --out good.parquet
    """
    from evokernel.core.run import Run
    from evokernel.experiments.trajectories import rows, write

    runs = [Run.open(folder) for folder in folders]
    count = write((row for run in runs for row in rows(run, feasible)), out)
    if as_json:
        emit({"file": str(out), "rows": count, "runs": [run.config.id for run in runs]})
    else:
        tell(f"{count} attempts of {len(runs)} run{'s' * (len(runs) != 1)} written to {out}")
