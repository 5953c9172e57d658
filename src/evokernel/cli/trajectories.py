"""`evokernel trajectories`: exports runs as training data."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Output file, which ends in .jsonl or .parquet."
)
@click.option(
    "--format",
    "row_format",
    type=click.Choice(["attempts", "sft", "preference", "multi-turn"]),
    default="attempts",
    show_default=True,
    help="attempts: one row each with all columns. The others are conversations that TRL reads.",
)
@click.option("--correct-only", is_flag=True, help="Export only attempts that passed all gates.")
@json_option
def command(folders: tuple[Path, ...], out: Path, row_format: str, correct_only: bool, as_json: bool) -> None:
    """Export one row per attempt: prompt, context, reply, outcome, reward and lineage. docs/training-data.md explains the columns.

    --format sft has a conversation for each correct kernel, preference pairs of a better and a worse kernel, multi-turn the way to the
    best kernel of each task with the verifier's feedback.

    \b
    Examples:
      evokernel trajectories runs/my-run --out attempts.jsonl
      evokernel trajectories runs/first runs/second --correct-only --out good.parquet
      evokernel trajectories runs/my-run --format sft --out sft.jsonl
    """
    from evokernel.core.run import Run
    from evokernel.reports.training_formats import FORMATS
    from evokernel.reports.trajectories import attempt_rows, write_rows

    runs = [Run.open(folder) for folder in folders]
    if row_format == "attempts":
        count = write_rows((row for run in runs for row in attempt_rows(run, correct_only)), out)
    elif correct_only:
        raise UserError(f"--correct-only is for --format attempts. Leave it out: --format {row_format} chooses attempts itself.")
    else:
        count = write_rows((row for run in runs for row in FORMATS[row_format](run)), out)
    if as_json:
        print_json({"file": str(out), "rows": count, "runs": [run.config.id for run in runs]})
    else:
        noun = {"attempts": "attempt", "preference": "pair"}.get(row_format, "conversation")
        print_text(f"Wrote {format_count(count, noun)} of {format_count(len(runs), 'run')} to {out}")
