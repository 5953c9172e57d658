"""`evokernel experiment`: runs the paper's experiments, or your own."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_table, json_option, print_json, print_text, wrap_text
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.core.final_results import FinalResult
    from evokernel.core.records import Attempt
    from evokernel.core.run import Run
    from evokernel.experiments.cost_estimate import CostEstimate
    from evokernel.experiments.spec import ExperimentSpec

PROGRESS_INTERVAL_S = 10.0
STOPPED_EXIT = 1
"""Exit code if a time limit ended the experiment before all seeds were complete."""


@click.command(epilog=TERMS_EPILOG)
@click.argument("name", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the experiments that come with the package.")
@click.option("--dry-run", is_flag=True, help="Print the expected attempts, time and cost without running anything.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Override the number of seeds.")
@click.option(
    "--max-operators",
    "operators",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of operators per group, spread evenly over the group. [all]",
)
@click.option("--arms", metavar="NAMES", help="Run only these arms, separated by commas.")
@click.option(
    "--protocol",
    type=click.Choice(["paper", "strict"]),
    help="Protocol used during the search; final kernels are re-evaluated under the other. [from the experiment file]",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting for all runs (key), one arm (arms.NAME.key) or one pack (packs.NAME.key); may be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Output folder; existing runs in it are resumed. [runs/experiments/NAME]",
)
@click.option(
    "--time-limit",
    "time_limit_min",
    type=click.FloatRange(0, min_open=True),
    metavar="MINUTES",
    help="Start no attempt after this time and report the seeds that are complete; the same command continues. [none]",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run N arms at the same time, each in its own process with its share of the cores. [1]",
)
@json_option
def command(
    name: str | None,
    is_list: bool,
    dry_run: bool,
    seeds: int | None,
    operators: int | None,
    arms: str | None,
    protocol: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    time_limit_min: float | None,
    processes: int,
    as_json: bool,
) -> int:
    """Run one of the paper's experiments on any backend and generator. NAME is one of --list, or a .toml file.

    \b
    Examples:
      evokernel experiment --list
      evokernel experiment table2 --dry-run
      evokernel experiment figure5 --set backend=cpp --max-operators 20 --seeds 2 --set budget=10
      evokernel experiment table2 --set generator=llm --set generator.model=gpt-5 --set arms.agent.generator.command="codex exec -"

    Each arm and seed has its own run folder; the same command resumes a stopped experiment.
    """
    from evokernel.experiments import cost_estimate, runner, spec

    if is_list or not name:
        return print_experiments(as_json)
    loaded_spec = spec.read_spec(name, [*sets, *([f"seeds={seeds}"] if seeds else [])])
    spec_in_use, exclusions = select_arms(spec.with_protocol(loaded_spec, protocol) if protocol else loaded_spec, arms)
    spec.check_settings(spec_in_use)
    folder = out or Path("runs") / "experiments" / spec_in_use.name
    tasks = runner.select_operators(spec_in_use, operators)
    rows = cost_estimate.estimate_costs(spec_in_use, tasks, [folder, Path("runs")])
    if dry_run:
        return print_cost_estimate(spec_in_use, rows, as_json)
    print_announcement(spec_in_use, rows, as_json)
    if operators:
        exclusions |= runner.describe_unsampled(tasks, runner.select_operators(spec_in_use), operators)
    options = {"--seeds": seeds, "--max-operators": operators, "--arms": arms, "--protocol": protocol}
    command_line = rebuild_command_line(name, options, sets)
    return run_and_report(spec_in_use, tasks, folder, exclusions, command_line, as_json, time_limit_min, processes)


def rebuild_command_line(name: str, options: dict[str, Any], sets: tuple[str, ...]) -> str:
    """The command line that repeats the experiment in any folder."""
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return shlex.join(["evokernel", "experiment", name, *words, *(word for text in sets for word in ("--set", text))])


def select_arms(plan: ExperimentSpec, names: str | None) -> tuple[ExperimentSpec, dict[str, str]]:
    """The experiment with the selected arms, and why other arms are excluded; prints a note for each arm that lacks a setting."""
    from evokernel.experiments import spec

    arms = spec.find_arms(plan, [name.strip() for name in names.split(",")] if names else None)
    for arm in arms:
        if arm.is_missing_setting():
            print_text(f"note: arm '{arm.name}' is excluded: set it with --set arms.{arm.name}.{arm.needs}=…", err=True)
    return spec.with_arms(plan, arms)


def print_experiments(as_json: bool) -> int:
    """Print the experiments that come with the package."""
    from evokernel.experiments import spec

    specs = [spec.read_spec(name) for name in spec.shipped_experiments()]
    if as_json:
        print_json(
            [
                {"name": plan.name, "title": plan.title, "description": plan.description, "arms": [arm.name for arm in plan.arms]}
                for plan in specs
            ]
        )
        return 0
    print_text(
        format_table(("experiment", "arms", "title"), [(plan.name, ", ".join(arm.name for arm in plan.arms), plan.title) for plan in specs])
    )
    return 0


def print_cost_estimate(plan: ExperimentSpec, rows: list[CostEstimate], as_json: bool) -> int:
    """Print the expected attempts, time and cost, and where the estimate comes from."""
    total = sum(row.attempts for row in rows)
    seconds = [row.seconds for row in rows]
    costs = [row.cost_usd for row in rows]
    time_s = None if None in seconds else sum(value or 0.0 for value in seconds)
    cost = None if None in costs else sum(value or 0.0 for value in costs)
    if as_json:
        records = [
            {
                "name": row.name,
                "part": row.part,
                "operators": row.operators,
                "attempts": row.attempts,
                "seconds": row.seconds,
                "cost_usd": row.cost_usd,
            }
            for row in rows
        ]
        print_json({"experiment": plan.name, "seeds": plan.seeds, "rows": records, "attempts": total, "seconds": time_s, "cost_usd": cost})
        return 0
    print_text(wrap_text(f"{plan.title}. {plan.description}"))
    table = [
        (
            row.name,
            row.part,
            str(row.operators),
            str(row.attempts),
            " ".join(filter(None, row.kind)),
            format_duration(row.seconds),
            format_cost(row.cost_usd),
        )
        for row in rows
    ]
    header = ("name", "part", "operators", "attempts", "backend and generator", "time", "cost")
    print_text(f"\n{format_table(header, table, align_right=(False, False, True, True, False, True, True))}\n")
    final_note = "" if plan.final_eval is None else ", then the best kernels are re-evaluated"
    print_text(
        wrap_text(
            f"At most {format_count(total, 'attempt')} over {format_count(plan.seeds, 'seed')}{final_note}. "
            f"Expected: {format_duration(time_s)}, {format_cost(cost)}."
        )
    )
    if time_s is None or cost is None:
        print_text(
            wrap_text(
                "Unknown: no run in ./runs has the same backend and generator. "
                "For an estimate, first run a small experiment: --max-operators 2 --seeds 1."
            )
        )
    else:
        print_text(wrap_text("Time and cost are estimates from earlier runs in ./runs."))
    return 0


def format_duration(seconds: float | None) -> str:
    """A duration as text, or `unknown`."""
    from evokernel.reports import formatting

    return "unknown" if seconds is None else f"about {formatting.format_duration(seconds)}"


def format_cost(cost: float | None) -> str:
    """A cost as text, or `unknown`."""
    return "unknown" if cost is None else "no cost" if not cost else f"about ${cost:.2f}"


def print_announcement(plan: ExperimentSpec, rows: list[CostEstimate], as_json: bool) -> None:
    """Print the size of the experiment before it starts."""
    attempts = sum(row.attempts for row in rows)
    print_text(
        wrap_text(
            f"{plan.title}: {format_count(len(plan.arms), 'arm')} × {format_count(plan.seeds, 'seed')}, "
            f"at most {format_count(attempts, 'attempt')}"
        ),
        err=as_json,
    )


class ProgressPrinter:
    """Prints a progress line on stderr every few seconds."""

    def __init__(self) -> None:
        self.printed_at, self.started_at = 0.0, time.monotonic()
        self.counts: Counter[str] = Counter()

    def __call__(self, run: Run, record: Attempt | FinalResult) -> None:
        from evokernel.core.final_results import FinalResult
        from evokernel.reports import formatting

        self.counts["re-evaluated" if isinstance(record, FinalResult) else "correct" if record.outcome.feasible else "failed"] += 1
        if time.monotonic() - self.printed_at > PROGRESS_INTERVAL_S:
            self.printed_at = time.monotonic()
            counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
            print_text(f"{formatting.format_duration(self.printed_at - self.started_at)}: {run.folder.name}: {counts}", err=True)


def run_and_report(
    plan: ExperimentSpec,
    requested_tasks: Any,
    folder: Path,
    exclusions: dict[str, str],
    command_line: str,
    as_json: bool,
    time_limit_min: float | None = None,
    processes: int = 1,
) -> int:
    """Run the experiment, write its report and print its tables. After the time limit, report the seeds that are complete."""
    from evokernel.experiments import arm_processes, report_writer, result_tables, runner
    from evokernel.experiments.results import Results
    from evokernel.experiments.run_session import TimeLimitReached
    from evokernel.experiments.summary import summarize_results
    from evokernel.reports.text_tables import format_report_table

    tasks, reasons = runner.filter_runnable(requested_tasks)
    for operator, reason in reasons.items():
        print_text(f"note: {operator} is excluded: {reason}", err=True)
    exit_code, limit_s = 0, time_limit_min and 60 * time_limit_min
    try:
        if processes > 1:
            arm_processes.run_side_by_side(
                plan, tasks, folder, processes, lambda line: print_text(line, err=True), limit_s, ProgressPrinter()
            )
        arm_runs = runner.run_experiment(plan, tasks, folder, ProgressPrinter(), limit_s)
    except TimeLimitReached:
        exit_code = STOPPED_EXIT
        seeds = runner.count_complete_seeds(plan, folder)
        print_text(
            wrap_text(
                f"Stopped after {time_limit_min:g} minutes: {seeds} of {format_count(plan.seeds, 'seed')} complete. "
                "The same command continues."
            ),
            err=True,
        )
        if not seeds:
            return exit_code
        plan = plan.model_copy(update={"seeds": seeds})
        arm_runs = runner.run_experiment(plan, tasks, folder)
    results = Results(plan, arm_runs, tasks, folder, runner.find_vacuous(tasks), {**exclusions, **reasons}, command_line)
    tables = report_writer.write_report_folder(results)
    if as_json:
        print_json(result_tables.results_to_json(results) | {"summary": summarize_results(results), "folder": str(folder)})
        return exit_code
    for table in tables:
        print_text(f"\n{format_report_table(table)}")
    print_text("")
    for line in summarize_results(results):
        print_text(wrap_text(line))
    print_text(wrap_text(result_tables.protocol_sentence(results)))
    print_text(f"\nReport: {folder / 'experiment.html'}, experiment.md and experiment.json")
    return exit_code
