"""`evokernel surrogate`: how well kernels can be forecast from the journals of runs."""

from __future__ import annotations

from pathlib import Path

import click

from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text


@click.command(epilog=TERMS_EPILOG)
@click.argument("folders", nargs=-1, required=True, metavar="RUN [RUN...]", type=click.Path(path_type=Path))
@json_option
def command(folders: tuple[Path, ...], as_json: bool) -> None:
    """Evaluate the surrogate on the journals of runs: its ranking of kernels, its calibration, and the verifications it would save.

    The surrogate forecasts a kernel's latency and its chance to be correct before the verification. With drafts_per_attempt above 1, a run
    uses it to choose the draft to verify. Each attempt is forecast without having seen it.

    \b
    Examples:
      evokernel surrogate runs/my-run
      evokernel surrogate runs/first runs/second --json
    """
    from evokernel.core.run import Run
    from evokernel.experiments.surrogate_eval import count_drafts, evaluate_runs
    from evokernel.experiments.surrogate_report import describe_drafts, evaluation_json, quality_table, reliability_table, saving_table
    from evokernel.reports.text_tables import format_report_table

    runs = [Run.open(folder) for folder in folders]
    evaluations, drafts = evaluate_runs(runs), count_drafts(runs)
    if as_json:
        print_json({"evaluations": [evaluation_json(one) for one in evaluations], "drafts": drafts._asdict()})
        return
    for table in (quality_table(evaluations), *map(reliability_table, evaluations), saving_table(evaluations)):
        if table.rows:
            print_text(format_report_table(table) + "\n")
    print_text(describe_drafts(drafts))
