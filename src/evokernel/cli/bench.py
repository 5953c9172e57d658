"""`evokernel bench`: evaluates the solutions of published benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.heartbeat import Heartbeat, announce_wait
from evokernel.cli.output import TERMS_EPILOG, format_table, print_text
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.app.kernelbench.evaluation import Settings
    from evokernel.app.kernelbench.results import SolutionResult
    from evokernel.app.kernelbench.runner import Evaluated, Runner
    from evokernel.app.kernelbench.solution_files import MappedSolution, UnmappedSolution

QUIET_S = 2.0
DEFAULT_OUT = "kernelbench-results"
FOLDER = click.Path(path_type=Path)


@click.group(epilog=TERMS_EPILOG)
def command() -> None:
    """Evaluate the solutions of published benchmarks.

    \b
    Example:
      evokernel bench kernelbench --solutions runs/mine --problems KernelBench
    """


@command.command(epilog=TERMS_EPILOG)
@click.option("--solutions", required=True, type=FOLDER, metavar="FOLDER", help="Folder with .py files that define ModelNew.")
@click.option("--problems", type=FOLDER, metavar="FOLDER", help="Checkout of KernelBench. [the suites level1, level2 and level3]")
@click.option("--index", "index_file", type=FOLDER, metavar="FILE", help='JSON object from file names to problems: {"a.py": "level1/23"}.')
@click.option("--allow-torch", is_flag=True, help="Also evaluate solutions in which PyTorch computes; the report names the operators.")
@click.option("--allow-weak-sandbox", is_flag=True, help="Run KernelBench's criterion even if the GPU needs a sandbox without some layers.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of solutions to evaluate at a time.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Evaluate only the first N solutions.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=1), default=300.0, show_default=True, help="Seconds for each criterion.")
@click.option(
    "--out", type=FOLDER, default=DEFAULT_OUT, show_default=True, metavar="FOLDER", help="Results and report; resumed if it has some."
)
@click.option("--json", "json_file", type=FOLDER, metavar="FILE", help="Write all results as JSON; - for stdout.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting of the verifier, such as backend.number=1.")
def kernelbench(
    solutions: Path,
    problems: Path | None,
    index_file: Path | None,
    allow_torch: bool,
    allow_weak_sandbox: bool,
    workers: int,
    limit: int | None,
    timeout_s: float,
    out: Path,
    json_file: Path | None,
    sets: tuple[str, ...],
) -> int:
    """Evaluate KernelBench solutions by the strict protocol and by KernelBench's own criterion, side by side.

    \b
    Examples:
      evokernel bench kernelbench --solutions runs/mine --problems KernelBench --workers 4
      evokernel bench kernelbench --solutions runs/mine --problems KernelBench --allow-torch --json results.json

    Exit codes: 0 every solution was evaluated, 1 some were not run or have no problem, 2 error to fix, 3 infrastructure failure.
    """
    from evokernel.app.kernelbench.report import results_record, write_report
    from evokernel.app.kernelbench.runner import ResultStore, Runner

    with announce_wait("looking for the GPU and reading the solutions"):
        settings, notes = resolve_settings(sets, workers, timeout_s, allow_torch, allow_weak_sandbox)
        mapped, unmapped = collect_solutions(solutions, problems, index_file, limit)
        runner = Runner(settings, ResultStore(out), workers)
    for one in unmapped:
        print_text(f"no problem for {one.name}: {one.fix}", err=True)
    for note in notes:
        print_text(f"note: {note}", err=True)
    results = evaluate_all(runner, mapped)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(write_report(results, unmapped, notes, runner.versions), encoding="utf-8")
    text = json.dumps(results_record(results, unmapped, notes, runner.versions), indent=1, allow_nan=False)
    if json_file == Path("-"):
        click.echo(text)
    else:
        print_summary(results, out)
        if json_file:
            json_file.write_text(text + "\n", encoding="utf-8")
    is_complete = not unmapped and all("not run" not in (one.strict.verdict, one.criterion.verdict) for one in results)
    return 0 if is_complete else 1


def resolve_settings(
    sets: tuple[str, ...], workers: int, timeout_s: float, allow_torch: bool, allow_weak_sandbox: bool
) -> tuple[Settings, list[str]]:
    """The settings of the verifier and the sandbox, and what this machine cannot do, one line each."""
    from evokernel.app.kernelbench.evaluation import Settings, describe_limits
    from evokernel.app.kernelbench.solution_client import SolutionSandbox, choose_sandbox
    from evokernel.backends.gpu.devices import query_device
    from evokernel.core.config import resolve_config

    config = resolve_config(None, sets, base={"backend": {"name": "cuda"}}, workers=workers, timeout_s=timeout_s)
    number = int(str(config.plugin_settings("backend").get("number", 0)))
    uses_device = config.plugin_settings("backend").get("device") != "never" and bool(query_device(number).name)
    sandbox = choose_sandbox(number if uses_device else -1)
    if sandbox.missing_layers and not allow_weak_sandbox:
        missing = " and ".join(sandbox.missing_layers)
        problem = f"the GPU works only in a sandbox without {missing}; allow it with --allow-weak-sandbox"
        sandbox = SolutionSandbox(sandbox.device, problem=problem)
    settings = Settings(config, sandbox, allow_torch=allow_torch, timeout_s=timeout_s)
    return settings, describe_limits(settings)


def collect_solutions(
    folder: Path, problems: Path | None, index_file: Path | None, limit: int | None
) -> tuple[list[MappedSolution], list[UnmappedSolution]]:
    """The solutions of a folder with their problems, and those without one."""
    from evokernel.app.kernelbench.solution_files import ProblemIndex, UnmappedSolution, find_solutions, map_solutions, read_index

    found, others = find_solutions(folder)
    if others:
        print_text(f"note: {format_count(len(others), 'Python file')} without ModelNew left out, such as {others[0]}", err=True)
    mapped: list[MappedSolution] = []
    unmapped: list[UnmappedSolution] = []
    for one in map_solutions(found, ProblemIndex.load(problems), read_index(index_file)):
        unmapped.append(one) if isinstance(one, UnmappedSolution) else mapped.append(one)
    if not mapped:
        raise UserError(f"no solution has a problem: {unmapped[0].name}: {unmapped[0].fix}")
    return mapped[:limit], unmapped


def evaluate_all(runner: Runner, mapped: list[MappedSolution]) -> list[SolutionResult]:
    """Evaluate all solutions; print a line for each, and one whenever nothing was printed for two seconds."""
    results: dict[str, SolutionResult] = {}
    with Heartbeat(lambda: f"  … {runner.describe_activity() or 'starting'}", quiet_s=QUIET_S) as heartbeat:
        for evaluated in runner.run(mapped):
            results[evaluated.result.solution] = evaluated.result
            print_text(format_progress(evaluated, len(results), len(mapped)), err=True)
            heartbeat.touch()
    return [results[one.solution.name] for one in mapped]


def format_progress(evaluated: Evaluated, finished: int, total: int) -> str:
    """`[3/12] name: strict failed (check: mismatch), KernelBench passed 1.30×, 12 s`."""
    from evokernel.reports.formatting import format_ratio

    result = evaluated.result
    strict, criterion = result.strict, result.criterion
    reason = (
        f" ({strict.gate}: {strict.reason})" if strict.verdict == "failed" else f" {format_ratio(strict.speedup)}" * bool(strict.speedup)
    )
    speed = f" {format_ratio(criterion.speedup)}" if criterion.speedup else ""
    took = "from an earlier run" if evaluated.is_reused else f"{result.seconds:.0f} s"
    head = f"[{finished:>{len(str(total))}}/{total}] {result.solution}"
    return f"{head}: strict {strict.verdict}{reason}, KernelBench {criterion.verdict}{speed}, {took}"


def print_summary(results: list[SolutionResult], out: Path) -> None:
    """The scores, and where the two criteria disagree."""
    from evokernel.app.kernelbench.report import CLAIM, SCORE_HEADER, score_rows

    print_text(format_table(SCORE_HEADER, score_rows(results), [False, True, True]))
    for title, names in (
        ("only KernelBench's criterion passes", [one for one in results if one.passes_only_criterion]),
        ("only the strict protocol passes", [one for one in results if one.passes_only_strict]),
    ):
        lines = [f"  {one.solution}: {one.strict.gate} {one.strict.reason}".rstrip() for one in names]
        print_text("\n".join(["", f"{title}: {len(names)}", *lines]))
    print_text(f"\n{CLAIM}\nreport: {out / 'report.md'}")
