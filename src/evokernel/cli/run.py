"""`evokernel run`: a new run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.output import folded, json_option, tell

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation
    from evokernel.engine.loop import Engine


@click.command()
@click.option("--tasks", metavar="SPEC", help="Suite, suite/name, file, folder or glob; several with commas. [starter]")
@click.option("--backend", metavar="NAME", help="What kernels are written in. [pallas, or cpp where that cannot work]")
@click.option("--generator", metavar="NAME", help="Who writes them. [sweep: no model needed]")
@click.option("--policy", metavar="NAME", help="What is shown to the generator. [value]")
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Attempts per task. [10]")
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Verifications at a time. [one per core]")
@click.option("--seed", type=int, metavar="N", help="Equal seeds and replies give equal runs. [0]")
@click.option("--memory", metavar="PATH|URL", help="Memory bank that lasts across runs: a file, or postgresql://… [evokernel-memory.db]")
@click.option("--fresh", is_flag=True, help="Begin with seed knowledge only, in a bank inside the run folder.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Run folder. [runs/<id>]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE.toml", help="Settings; flags and --set win over it.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Any setting, such as policy.epsilon=0.1; may be repeated.")
@click.option("--require-sandbox", is_flag=True, help="Refuse to run where a layer of the sandbox is missing; doctor lists them.")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@json_option
def command(
    tasks: str | None,
    backend: str | None,
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
    plain: bool,
    as_json: bool,
) -> int:
    """Write, verify and improve kernels for a suite of tasks.

    \b
    Examples:
      evokernel run
      evokernel run --tasks starter/softmax,starter/matmul --budget 20 --set backend.chip=v6e
      evokernel run --backend cpp --tasks ./my_ops --generator llm --set generator.model=gpt-5
      evokernel run --config experiment.toml --seed 1 --fresh --json

    Ctrl-C finishes the attempts in flight; 'evokernel resume FOLDER' goes on. Exit codes: 0 finished, 2 something to
    fix, 3 infrastructure trouble, 130 interrupted.
    """
    from evokernel.app.factory import create_engine, with_working_backend
    from evokernel.cli.run_lifecycle import drive
    from evokernel.core.bank_uri import resolve_path
    from evokernel.core.config import resolve_config
    from evokernel.reports.formatting import tags

    settings = resolve_config(
        config,
        sets,
        tasks=tasks,
        backend=backend,
        generator=generator,
        policy=policy,
        budget=budget,
        workers=workers,
        seed=seed,
        memory=memory,
        fresh=fresh or None,
        require_sandbox=require_sandbox or None,
    )
    # The bank stays the same one when the run is resumed or reported from another folder.
    settings = settings.model_copy(update={"memory": resolve_path(settings.memory)})
    settings, why = with_working_backend(settings)
    if why:
        tell(folded(f"{why}. Going on with backend '{settings.plugin_name('backend')}'."), err=as_json)
    engine = create_engine(settings, out)
    tell(folded(announce(engine)), err=as_json)
    for task in engine.run.tasks:
        for text in tags(task.tags):
            tell(f"note: {task.id} is {text}", err=True)
    return drive(engine, plain, as_json)


def announce(engine: Engine) -> str:
    """What is about to happen, in one line."""
    from evokernel.cli.report import bank_path
    from evokernel.core.bank_uri import parse_location
    from evokernel.memory.bank import Bank
    from evokernel.reports.formatting import backend

    config = engine.run.config
    count = len(engine.run.tasks)
    with Bank.read(bank_path(engine.run)) as bank:
        items = bank.count()
    where = "a fresh bank" if config.fresh else f"memory {near(parse_location(config.memory))}"
    return (
        f"{count} task{'s' * (count != 1)} × {config.budget} attempt{'s' * (config.budget != 1)}, "
        f"backend {backend(config.plugin_name('backend'), engine.run.facts)}, "
        f"generator {config.plugin_name('generator')}, policy {config.plugin_name('policy')}, {where} ({items} items), folder {engine.run.folder}"
    )


def near(path: BankLocation) -> BankLocation:
    """A path as seen from here, when it lies below."""
    return path.relative_to(Path.cwd()) if isinstance(path, Path) and path.is_relative_to(Path.cwd()) else path
