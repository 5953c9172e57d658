"""`evokernel run`: starts a new run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.output import TERMS_EPILOG, fail_under_option, json_option, print_text, size_option, wrap_text
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.core.config import RunConfig
    from evokernel.engine.loop import Engine


@click.command(epilog=TERMS_EPILOG)
@click.option("--tasks", metavar="SPEC", help="Tasks: a suite, suite/name, file, folder or glob; separate several with commas. [starter]")
@click.option("--backend", metavar="NAME", help="Kernel language. [pallas, or cpp if pallas cannot work here]")
@size_option
@click.option(
    "--start",
    type=click.Path(path_type=Path),
    metavar="FILE|FOLDER",
    help="Your own first kernel, or kernels named after tasks; verified first.",
)
@click.option("--generator", metavar="NAME", help="Kernel generator. [template_search, which needs no model]")
@click.option("--policy", metavar="NAME", help="Policy that chooses the context of each prompt. [value]")
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help="Attempts per task. [10; template_search: 5, or fewer if they gain nothing]",
)
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Number of parallel verifications. [one per core; at most 4 on a GPU]")
@click.option("--seed", type=int, metavar="N", help="Random seed; equal seeds and replies give equal runs. [0]")
@click.option("--memory", metavar="PATH|URL", help="Memory bank, which lasts across runs: a file, or postgresql://… [evokernel-memory.db]")
@click.option("--fresh", is_flag=True, help="Start with seed knowledge only, in a new bank inside the run folder.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Run folder. [runs/<id>]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE.toml", help="Settings file; options and --set override it.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting, such as policy.epsilon=0.1; may be repeated.")
@click.option("--require-sandbox", is_flag=True, help="Refuse to run if a layer of the sandbox is missing; 'evokernel doctor' lists them.")
@fail_under_option
@click.option("--plain", is_flag=True, help="Print plain lines instead of the live display.")
@json_option
def command(
    tasks: str | None,
    backend: str | None,
    size: str | None,
    start: Path | None,
    generator: str | None,
    policy: str | None,
    budget: int | None,
    workers: int | None,
    seed: int | None,
    memory: str | None,
    fresh: bool,
    out: Path | None,
    config: Path | None,
    sets: tuple[str, ...],
    require_sandbox: bool,
    fail_under: float,
    plain: bool,
    as_json: bool,
) -> int:
    """Write, verify and improve kernels for a suite of tasks.

    \b
    Examples:
      evokernel run
      evokernel run --tasks starter/softmax,starter/matmul --budget 20 --set backend.chip=v6e
      evokernel run --backend cpp --tasks ./my_ops --generator llm --set generator.model=gpt-5
      evokernel run --backend cpp --tasks my_op.py --start mine.cpp
      evokernel run --config experiment.toml --seed 1 --fresh --json

    Ctrl-C finishes the attempts in flight; 'evokernel resume FOLDER' continues the run. Exit codes: 0 at least one task
    has a correct kernel, 1 none has or fewer than --fail-under, 2 error to fix, 3 infrastructure failure, 130 interrupted.
    """
    from evokernel.app.run_lifecycle import configure_run, list_run_notes, start_run
    from evokernel.cli.heartbeat import announce_wait
    from evokernel.cli.run_display import display_run

    settings = configure_run(
        config,
        sets,
        tasks=tasks,
        backend=backend,
        size=size,
        start=str(start) if start else None,
        generator=generator,
        policy=policy,
        budget=budget,
        workers=workers,
        seed=seed,
        memory=memory,
        fresh=fresh or None,
        require_sandbox=require_sandbox or None,
    )
    with announce_wait("looking for the toolchain and loading the tasks"):
        engine = start_run(settings, out, lambda text: print_text(wrap_text(text), err=as_json))
    print_text(wrap_text(describe_run(engine)), err=as_json)
    for note in list_run_notes(engine):
        print_text(wrap_text(f"note: {note}"), err=True)
    return display_run(engine, plain, as_json, fail_under)


def describe_run(engine: Engine) -> str:
    """The configuration of the run in one line."""
    from evokernel.core.bank_uri import parse_location
    from evokernel.memory.bank import Bank
    from evokernel.reports.formatting import format_backend

    config = engine.run.config
    count = len(engine.run.tasks)
    sizes = " and ".join(sorted({task.timed_size for task in engine.run.tasks}))
    with Bank.open_reader(config.bank_location(engine.run.folder)) as bank:
        items = bank.count_items()
    where = "new memory bank" if config.fresh else f"memory bank {relative_to_cwd(parse_location(config.memory))}"
    return (
        f"{format_count(count, 'task')} × {describe_budget(config)}, timed at size {sizes}, "
        f"backend {format_backend(config.plugin_name('backend'), engine.run.environment)}, "
        f"generator {config.plugin_name('generator')}, policy {config.plugin_name('policy')}, "
        f"{where} ({format_count(items, 'item')}), folder {engine.run.folder}"
    )


def describe_budget(config: RunConfig) -> str:
    """The attempts per task: `10 attempts`, or `up to 5 attempts` if a task may end earlier."""
    return ("" if config.stop_when == "budget" else "up to ") + format_count(config.budget, "attempt")


def relative_to_cwd(path: BankLocation) -> BankLocation:
    """The path relative to the working folder if it lies below it, else unchanged."""
    return path.relative_to(Path.cwd()) if isinstance(path, Path) and path.is_relative_to(Path.cwd()) else path
