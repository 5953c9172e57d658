"""`evokernel offline`: estimates from recorded runs what reward other policies would have earned."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, required=True, metavar="RUN [RUN]...", type=click.Path(path_type=Path))
@click.option("--policies", required=True, metavar="NAME,NAME", help="Policies to evaluate, separated by commas.")
@click.option("--set", "overrides", multiple=True, metavar="POLICY.KEY=VALUE", help="Set a setting of a policy; may be repeated.")
@click.option("--draws", type=click.IntRange(1, 1000), default=20, show_default=True, help="Draws of a policy that draws at random.")
@json_option
def command(folders: tuple[Path, ...], policies: str, overrides: tuple[str, ...], draws: int, as_json: bool) -> None:
    """Estimate what mean reward policies would have earned on the attempts of recorded runs, without making an attempt.

    \b
    Examples:
      evokernel offline runs/first runs/second --policies similarity,contextual
      evokernel offline runs/first --policies value --set value.top_n=2 --json

    The runs must have recorded how probable their choices were: the policies contextual and value (with epsilon above 0) do.
    docs/offline-evaluation.md explains what the estimates can and cannot tell.
    """
    from evokernel.core.config import Table, apply_override
    from evokernel.core.errors import UserError
    from evokernel.core.records import Stage
    from evokernel.core.run import Run
    from evokernel.experiments.offline import evaluate_policy, read_attempts
    from evokernel.experiments.offline_estimates import estimate_json, estimate_policy, estimates_table
    from evokernel.reports.text_tables import format_report_table

    names = [name for name in (part.strip() for part in policies.split(",")) if name]
    settings: Table = {}
    for text in overrides:
        apply_override(settings, text)
    if unknown := sorted(set(settings) - set(names)):
        raise UserError(f"--set {unknown[0]}: name a policy of --policies first, for example --set {names[0]}.top_n=2")
    runs = [Run.open(folder) for folder in folders]
    for run in runs:
        read_attempts(run)
    estimates = []
    for name in names:
        decisions = [one for run in runs for one in evaluate_policy(run, name, settings.get(name, {}), draws)]
        stages = [stage for stage in Stage if any(one.stage is stage for one in decisions)]
        estimates += [estimate_policy(name, stage, decisions) for stage in stages]
    if as_json:
        print_json([estimate_json(one) for one in estimates])
    else:
        print_text(format_report_table(estimates_table(estimates)))
