"""`evokernel tasks`: lists, shows, counts and lints tasks."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import TERMS_EPILOG, format_pairs, format_table, json_option, print_json, print_text, size_option
from evokernel.core.errors import UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from evokernel.core.records import TimedSize
    from evokernel.suites.lint_workers import LintReport
    from evokernel.suites.loader import TaskFile

MAX_REFERENCE_RUNS = 32  # longer lists do not run references that are not cached
SUBCOMMANDS = ("list", "show", "count", "lint")


class DefaultGroup(click.Group):
    """A group whose default subcommand is `list`: `evokernel tasks SPEC` lists tasks."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = args and (args[0] in SUBCOMMANDS or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["list", *args])


@click.group(cls=DefaultGroup, epilog=TERMS_EPILOG)
def command() -> None:
    """List tasks, show the requirements of one, count them, or lint them.

    \b
    SPEC is a suite, suite/name, suite/category, a .py file, a folder, a checkout of KernelBench or MultiKernelBench,
    or a glob; separate several with commas. [default: starter]
    Examples:
      evokernel tasks
      evokernel tasks level1 --category convolution
      evokernel tasks show starter/softmax --backend cpp
      evokernel tasks lint ./KernelBench --protocol paper
    """


def task_arguments(min_words: int, default: str = "starter") -> Callable[[Any], Any]:
    """Decorator: adds SPEC and its filters, and passes the selected files as `files`. SPEC needs at least `min_words` words."""

    def decorate(function: Any) -> Any:
        from functools import wraps

        @wraps(function)
        def wrapper(spec: tuple[str, ...], level: int | None, category: str, **more: Any) -> Any:
            from evokernel.suites.loader import select_task_files

            if len(spec) < min_words:
                raise UserError("no task given. Example: evokernel tasks show starter/softmax")
            return function(files=select_task_files(",".join(spec) or default, level, category), **more)

        wrapper = click.option("--category", default="", metavar="NAME", help="Select only tasks of this category.")(wrapper)
        wrapper = click.option("--level", type=int, metavar="N", help="Select only tasks of this level.")(wrapper)
        return click.argument("spec", nargs=-1, metavar="SPEC")(wrapper)

    return decorate


@command.command("list")
@task_arguments(0)
@json_option
def list_tasks(files: list[TaskFile], as_json: bool) -> None:
    """List tasks, one line each; `evokernel tasks SPEC` does the same.

    \b
    Examples:
      evokernel tasks list attention
      evokernel tasks level1 --category convolution
    """
    from evokernel.suites import loader

    rows = list_rows(files)
    if as_json:
        print_json(rows)
        return
    header = ["task", "category", "level", "inputs", "outputs", "work"]
    print_text(format_table(header, [[str(row[name]) for name in header] for row in map(format_row, rows)], [False, False, True]))
    first = rows[0]["task"] if rows[0]["task"].partition("/")[0] in loader.suite_names() else quote(rows[0]["path"])
    print_text(f"\n{len(rows)} task{'s' * (len(rows) != 1)}; suites: {', '.join(loader.suite_names())}. More: evokernel tasks show {first}")
    if any(row["inputs"] is None and not row["error"] for row in rows):
        print_text(
            "– marks a reference that was not run yet: lists of more than "
            f"{MAX_REFERENCE_RUNS} tasks run none. 'evokernel tasks lint --load-only SPEC' runs them all once."
        )


@command.command("show")
@task_arguments(1)
@click.option("--backend", default="pallas", metavar="NAME", help="Backend whose entry point to print. [pallas]")
@size_option
@json_option
def show(files: list[TaskFile], backend: str, size: TimedSize | None, as_json: bool) -> None:
    """Show the requirements of a task: signature, sizes, numeric contract, work, entry point and reference.

    \b
    Examples:
      evokernel tasks show starter/softmax --backend cpp
      evokernel tasks show level1/relu --size full
      evokernel tasks show my_tasks/row_norm.py
    """
    from evokernel.app.factory import choose_timed_size
    from evokernel.core.config import resolve_config
    from evokernel.reports.task_report import task_record
    from evokernel.suites import loader

    config = resolve_config(None, (), backend=backend, size=size)
    records = [task_record(loader.describe_task(file, choose_timed_size(config, file)), backend) for file in files]
    print_json(records) if as_json else print_text("\n\n".join(format_task(one) for one in records))


@command.command("count")
@task_arguments(0, "all")
@json_option
def count(files: list[TaskFile], as_json: bool) -> None:
    """Count tasks by suite and category; without SPEC, all suites.

    \b
    Examples:
      evokernel tasks count
      evokernel tasks count ./MultiKernelBench
    """
    from evokernel.suites.loader import list_levels

    suites = list(dict.fromkeys(suite_name(file) for file in files))
    rows = [
        {
            "suite": suite,
            "level": ", ".join(map(str, list_levels([f for f in files if suite_name(f) == suite]))),
            "category": name,
            "tasks": n,
        }
        for suite in suites
        for name, n in sorted(Counter(file.category for file in files if suite_name(file) == suite).items())
    ]
    if as_json:
        print_json(rows)
        return
    totals = [[suite, "", "all", str(sum(suite_name(file) == suite for file in files))] for suite in suites]
    lines = [[str(cell) for cell in row.values()] for row in rows]
    body = [line for total in totals for line in (*(one for one in lines if one[0] == total[0]), total)]
    print_text(format_table(["suite", "level", "category", "tasks"], body, [False, True, False, True]))
    print_text(f"\n{format_count(len(files), 'task')} in {format_count(len(suites), 'suite')}")


@command.command("lint", epilog=TERMS_EPILOG)
@task_arguments(0)
@click.option("--protocol", type=click.Choice(["strict", "paper"]), default="strict", help="Protocol whose tolerance applies. [strict]")
@click.option("--workers", type=click.IntRange(1), default=2, metavar="N", help="Number of tasks checked in parallel. [2]")
@click.option("--timeout", type=click.FloatRange(1), default=180, metavar="S", help="Time limit per task in seconds. [180]")
@click.option("--load-only", is_flag=True, help="Only check that each task loads and has a signature and a small size.")
@json_option
def lint(files: list[TaskFile], protocol: str, workers: int, timeout: float, load_only: bool, as_json: bool) -> int:
    """Find tasks that are unfit for verification, for example tasks that a trivial kernel passes.

    \b
    vacuous             zeros, a constant, a function of the parameters alone or a copy of an input passes
    unused              the output does not depend on an input or parameter
    constant-parameter  a parameter has the same value everywhere, such as all ones or zeros
    random              the reference draws random numbers
    nondeterministic    the output differs from run to run for other reasons
    non-finite          outputs contain NaN or infinities
    fixed-size          the task has only one size
    too large           the task needs more memory than this machine has
    unchecked           the lint could not run here
    Examples:
      evokernel tasks lint mhc
      evokernel tasks lint my_tasks --protocol paper
      evokernel tasks lint ./KernelBench --load-only

    Exit codes: 0 no issues, 1 a task is unusable or has an issue under the protocol, 2 error to fix.
    """
    from evokernel.suites.lint_workers import lint_tasks

    reports: list[LintReport] = []
    for report in lint_tasks(files, is_full=not load_only, workers=workers, timeout_s=timeout):
        reports.append(report)
        status = (
            "unusable" if report.error else ", ".join(dict.fromkeys(issue.kind for issue in report.issues_for(protocol))) or "no issues"
        )
        print_text(f"[{len(reports)}/{len(files)}] {report.id}: {status} ({report.seconds:.1f} s)", err=True)
    order = {file.id: n for n, file in enumerate(files)}
    reports.sort(key=lambda report: order[report.id])
    if as_json:
        print_json([report.model_dump(mode="json", exclude={"task"}) | task_facts(report) for report in reports])
    else:
        print_lint_reports(reports, protocol, load_only)
    return int(any(report.error or report.issues_for(protocol) for report in reports))


def print_lint_reports(reports: list[LintReport], protocol: str, load_only: bool) -> None:
    """Print every issue, then the counts by suite and level."""
    from evokernel.suites.lint_workers import count_results

    for report in reports:
        if report.error:
            print_text(f"{report.id}: unusable: {report.error}")
        for kind, text in group_issues(report, protocol).items():
            print_text(f"{report.id}: {kind}: {text}")
    keys = list(dict.fromkeys((suite_name(report), report.level) for report in reports))
    header = ["suite", "level", "tasks", "load", "small size", *([] if load_only else ["no issues", "vacuous"])]
    body = []
    for suite, level in keys:
        members = [report for report in reports if (suite_name(report), report.level) == (suite, level)]
        body.append([suite, str(level), *map(str, count_results(members, protocol))][: len(header)])
    print_text("\n" + format_table(header, body, [False] + [True] * 6))
    if not load_only:
        print_text(f"\nTolerance: protocol {protocol}; --json prints both protocols and every size.")


def group_issues(report: LintReport, protocol: str) -> dict[str, str]:
    """The issues of a task by kind, each with the sizes it occurs at."""
    issues: dict[str, dict[str, list[str]]] = {}
    for issue in report.issues_for(protocol):
        issues.setdefault(issue.kind, {}).setdefault(issue.message, []).append(issue.size.replace("_", "-"))
    return {
        kind: "; ".join(what + (f" ({', '.join(filter(None, sizes))})" if any(sizes) else "") for what, sizes in whats.items())
        for kind, whats in issues.items()
    }


def task_facts(report: LintReport) -> dict[str, Any]:
    """Further facts about a task for programs."""
    task = report.task
    return {"sizes": task.sizes, "flops": task.work.flops, "bytes": task.work.bytes, "peak_bytes": task.work.peak_bytes} if task else {}


def suite_name(one: TaskFile | LintReport) -> str:
    """The first part of an id."""
    return one.id.partition("/")[0]


def list_rows(files: list[TaskFile]) -> list[dict[str, Any]]:
    """One row per file. Long lists take signatures from the cache only, so that listing stays fast."""
    from evokernel.reports.task_report import format_tensor
    from evokernel.suites import loader

    rows = []
    for file in files:
        task, error = None, None
        try:
            task = loader.describe_task(file) if len(files) <= MAX_REFERENCE_RUNS else loader.load_cached_task(file)
        except UserError as load_error:
            if len(files) == 1:
                raise
            error = str(load_error)
        signature = task.signature if task else None
        rows.append(
            {
                "task": file.id,
                "category": file.category,
                "family": file.family,
                "families": list(file.families),
                "level": file.level,
                "path": file.spec,
                "inputs": [format_tensor(tensor) for tensor in (*signature.inputs, *signature.params)] if signature else None,
                "outputs": [format_tensor(tensor) for tensor in signature.outputs] if signature else None,
                "flops": task.work.flops if task else None,
                "bytes": task.work.bytes if task else None,
                "error": error,
            }
        )
    return rows


def format_row(row: dict[str, Any]) -> dict[str, str]:
    """A row as people read it."""
    from evokernel.reports.formatting import UNKNOWN, first_line, format_bytes

    work = UNKNOWN if row["flops"] is None else f"{row['flops'] / 1e6:.3g} Mflop, {format_bytes(row['bytes'])}"
    inputs = row["error"] and f"unusable: {row['error']}"
    return {
        "task": row["task"],
        "category": row["category"],
        "level": str(row["level"]),
        "inputs": first_line(inputs or " ".join(row["inputs"] or [UNKNOWN]), 60),
        "outputs": " ".join(row["outputs"] or [UNKNOWN]),
        "work": work,
    }


def format_task(record: dict[str, Any]) -> str:
    """The task as text."""
    from evokernel.reports.task_report import task_rows

    entry_point = f"entry point ({record['backend']}):\n\n{record['entry_point']}"
    return f"{format_pairs(task_rows(record))}\n\n{entry_point}\n\nreference:\n\n{record['source'].rstrip()}"
