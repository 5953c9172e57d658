"""`evokernel check`: verifies kernels again and compares them with a run, for CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.heartbeat import Heartbeat, announce_wait
from evokernel.cli.output import TERMS_EPILOG, json_option, print_json, print_text
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.app.kernel_check import CheckPlan
    from evokernel.reports.kernel_check import KernelCheck

FILE = click.Path(path_type=Path)


def parse_percentage(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return a share: 0.05 for `5%` and for `0.05`."""
    text = value.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < (inf if text.endswith("%") else 1):
        raise click.BadParameter(f"'{value}' is neither a percentage nor a share below 1. Write --max-slowdown 5%.", ctx, param)
    return share


@click.command(epilog=TERMS_EPILOG)
@click.argument("kernels", nargs=-1, type=FILE)
@click.option("--against", "folder", required=True, type=FILE, metavar="RUN", help="Folder of the run that recorded the kernels.")
@click.option(
    "--max-slowdown", callback=parse_percentage, default="5%", show_default=True, metavar="SHARE", help="Largest slowdown that passes."
)
@click.option("--if-toolchain-changed", is_flag=True, help="Verify only if a version differs from the one that the run recorded.")
@click.option("--junit", type=FILE, metavar="FILE", help="Write the results as JUnit XML.")
@click.option(
    "--summary", type=FILE, metavar="FILE", envvar="GITHUB_STEP_SUMMARY", help="Append a Markdown summary. [$GITHUB_STEP_SUMMARY]"
)
@click.option("--annotations/--no-annotations", default=None, help="Print GitHub annotations. [if $GITHUB_ACTIONS is 'true']")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Number of kernels to verify at a time.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting of the run, such as timeout_s=120.")
@json_option
def command(
    kernels: tuple[Path, ...],
    folder: Path,
    max_slowdown: float,
    if_toolchain_changed: bool,
    junit: Path | None,
    summary: Path | None,
    annotations: bool | None,
    workers: int,
    sets: tuple[str, ...],
    as_json: bool,
) -> int:
    """Verify kernels again and compare them with what a run recorded. Without KERNELS, check the run's best kernels.

    KERNELS are folders that 'evokernel export' wrote, runs, or files and folders named after the run's tasks.

    \b
    Examples:
      evokernel check kernels/ --against runs/my-run --max-slowdown 5% --junit check.xml
      evokernel check softmax.cpp --against runs/my-run
      evokernel check --against runs/my-run --if-toolchain-changed

    Exit codes: 0 all passed, 1 a kernel is wrong or slower, 2 error to fix, 3 infrastructure failure.
    """
    from evokernel.app.kernel_check import CheckPlan
    from evokernel.core.run import Run

    with announce_wait("reading the run"):
        plan = CheckPlan(Run.open(folder), sets)
        changes = plan.toolchain_changes
    if if_toolchain_changed and not changes:
        return report_unchanged(plan, as_json)
    checks = verify_and_show(plan, kernels, max_slowdown, workers, as_json)
    has_annotations = os.environ.get("GITHUB_ACTIONS") == "true" if annotations is None else annotations
    write_reports(plan, checks, max_slowdown, changes, junit, summary)
    report_checks(checks, changes, has_annotations, as_json)
    return exit_code(checks)


def report_unchanged(plan: CheckPlan, as_json: bool) -> int:
    """Say that the toolchain is the one that the run recorded."""
    if as_json:
        print_json({"kernels": [], "toolchain_changes": [], "verified": False, "toolchain": plan.versions})
    else:
        versions = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
        print_text(f"the toolchain has not changed since {plan.run.folder}: {versions}. No kernel was verified.")
    return 0


def verify_and_show(plan: CheckPlan, paths: Sequence[Path], limit: float, workers: int, as_json: bool) -> list[KernelCheck]:
    """Verify the kernels and print each as it is decided, with a line on stderr whenever one takes long."""
    from evokernel.app.kernel_check import check_kernels
    from evokernel.reports.check_formats import describe_check

    kernels, checks = plan.find_kernels(paths), list[Any]()
    with Heartbeat(lambda: f"  … verified {len(checks)} of {len(kernels)} kernels") as heartbeat:
        for check in check_kernels(plan, kernels, limit, workers):
            checks.append(check)
            if not as_json:
                print_text(describe_check(check))
                heartbeat.touch()
    return checks


def write_reports(
    plan: CheckPlan, checks: Sequence[KernelCheck], limit: float, changes: Sequence[str], junit: Path | None, summary: Path | None
) -> None:
    """Write the JUnit file and append the summary."""
    from evokernel.reports.check_formats import junit_xml, markdown_summary

    if junit:
        properties = {"run": plan.run.config.id, "max_slowdown": f"{100 * limit:g} %", **plan.versions}
        with explain_unwritable(junit, "--junit"):
            junit.parent.mkdir(parents=True, exist_ok=True)
            junit.write_text(junit_xml(checks, properties), encoding="utf-8")
    if summary:
        with explain_unwritable(summary, "--summary"), summary.open("a", encoding="utf-8") as file:
            file.write(markdown_summary(checks, limit, changes))


@contextmanager
def explain_unwritable(file: Path, option: str) -> Iterator[None]:
    """Turn an error of the file system into one line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}. Choose another file with {option}.") from error


def report_checks(checks: Sequence[KernelCheck], changes: Sequence[str], has_annotations: bool, as_json: bool) -> None:
    """Print the annotations and the result of all kernels."""
    from evokernel.reports.check_formats import describe_counts, github_annotations
    from evokernel.reports.kernel_check import check_record

    if has_annotations:
        for line in github_annotations(checks):
            print_text(line, err=as_json)
    if as_json:
        records = [check_record(check) for check in checks]
        print_json({"kernels": records, "toolchain_changes": list(changes), "verified": True})
    else:
        print_text("\n".join([*(f"toolchain: {change}" for change in changes), describe_counts(checks)]))


def exit_code(checks: Sequence[KernelCheck]) -> int:
    """1 if a kernel failed, 3 if none failed but one could not be verified, otherwise 0."""
    from evokernel.reports.kernel_check import Status

    statuses = {check.status for check in checks}
    return 1 if Status.FAILED in statuses else 3 if Status.ERROR in statuses else 0
