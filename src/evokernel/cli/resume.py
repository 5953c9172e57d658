"""`evokernel resume`: goes on with a run."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import folded, json_option, tell


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Another number of attempts per task.")
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Verifications at a time.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="A setting to change for what is still to come.")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@json_option
def command(folder: Path, budget: int | None, workers: int | None, sets: tuple[str, ...], plain: bool, as_json: bool) -> int:
    """Go on with a run that was stopped or killed, or give a finished one more attempts.

    \b
    Examples:
      evokernel resume runs/20260102-030405-pallas-sweep-1a2b
      evokernel resume runs/my-run --budget 30

    What was already paid for is never asked for again. A run that is complete says so.
    """
    from evokernel.app.factory import resume_engine
    from evokernel.cli.run import announce
    from evokernel.cli.run_lifecycle import drive
    from evokernel.core.run import Run

    attempts = Run.open(folder).attempts()
    engine = resume_engine(folder, sets, budget=budget, workers=workers)
    if engine.run.is_complete(attempts):
        tell(f"{folder} is complete ({len(attempts)} attempts); for more: evokernel resume {folder} --budget N", err=as_json)
    else:
        most = len(engine.run.tasks) * engine.run.config.budget
        tell(folded(f"resuming: {len(attempts)} of {most} attempts are there. {announce(engine)}"), err=as_json)
    return drive(engine, plain, as_json)
