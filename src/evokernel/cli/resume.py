"""`evokernel resume`: continues a run."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, fail_under_option, json_option, print_text, wrap_text
from evokernel.core.labels import format_count


@click.command(epilog=TERMS_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--budget", type=click.IntRange(1), metavar="N", help="New number of attempts per task.")
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Number of parallel verifications.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting for the remaining attempts; may be repeated.")
@fail_under_option
@click.option("--plain", is_flag=True, help="Print plain lines instead of the live display.")
@json_option
def command(
    folder: Path, budget: int | None, workers: int | None, sets: tuple[str, ...], fail_under: float, plain: bool, as_json: bool
) -> int:
    """Continue a run that was stopped or killed, or give a finished run more attempts.

    \b
    Examples:
      evokernel resume runs/20260102-030405-pallas-template_search-1a2b
      evokernel resume runs/my-run --budget 30

    Recorded attempts are not repeated. If the run is already complete, the command says so. A new --budget is spent
    completely, also on tasks that ended earlier because a further attempt promised no gain (--set stop_when=gain keeps that). The exit
    codes are those of 'evokernel run'.
    """
    from evokernel.app.run_lifecycle import continue_run
    from evokernel.cli.heartbeat import announce_wait
    from evokernel.cli.run import describe_run
    from evokernel.cli.run_display import display_run
    from evokernel.core.run import Run

    attempts = Run.open(folder).attempts()
    with announce_wait("opening the run"):
        engine = continue_run(folder, sets, budget=budget, workers=workers)
    if engine.run.is_complete(attempts):
        print_text(
            f"{folder} is complete ({format_count(len(attempts), 'attempt')}). For more attempts: evokernel resume {folder} --budget N",
            err=as_json,
        )
    else:
        total = len(engine.run.tasks) * engine.run.config.budget
        print_text(wrap_text(f"Resuming after {len(attempts)} of {format_count(total, 'attempt')}: {describe_run(engine)}"), err=as_json)
    return display_run(engine, plain, as_json, fail_under)
