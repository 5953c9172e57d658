"""`evokernel worker`: verifies candidates for a run on another machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.backends import backend_record
from evokernel.cli.output import json_option, print_json, print_text
from evokernel.core.errors import UserError

if TYPE_CHECKING:
    from evokernel.app.worker_check import WorkerCheck


@click.command()
@click.option("--check", is_flag=True, help="Show what this machine can verify and how to start Ray on it, then exit.")
@click.option("--once", is_flag=True, help="Read one job until the end of stdin, answer it and exit.")
@json_option
def command(check: bool, once: bool, as_json: bool) -> int:
    """Verify candidates for a run on another machine: read jobs from stdin, one line of JSON each, and answer each with a line of JSON.

    The worker runs until stdin ends. Executor 'command' starts it over ssh or in a container; executor 'ray' starts its own.

    \b
    Examples:
      evokernel worker --check
      evokernel worker --check --json
      evokernel worker --once < job.json
      evokernel run --set executor=command --set 'executor.command="ssh box evokernel worker"'

    Exit codes: 0 success, 1 no backend works (with --check), 2 error to fix.
    """
    if not check:
        if os.isatty(0):
            raise UserError(
                "no job on stdin: an executor starts 'evokernel worker'. To check this machine, use 'evokernel worker --check'."
            )
        from evokernel.executors.worker import main

        main(once)
        return 0
    from evokernel.app.worker_check import check_worker

    result = check_worker()
    print_json(check_record(result)) if as_json else print_text("\n".join(format_check(result)))
    return 0 if result.ray_resources else 1


def check_record(check: WorkerCheck) -> dict[str, Any]:
    """The result of the check as JSON."""
    rows = [{**backend_record(status), "cannot_verify_reason": reason, "devices": devices} for status, reason, devices in check.backends]
    sandbox = [{"layer": layer.name, "is_active": layer.is_active, "detail": layer.detail} for layer in check.sandbox]
    return {**check._asdict(), "backends": rows, "sandbox": sandbox}


def format_check(check: WorkerCheck) -> Iterator[str]:
    """The result of the check as text lines."""
    from evokernel.app.machine_checks import format_versions

    versions = ", ".join(f"{name} {text or 'not installed'}" for name, text in check.versions.items())
    yield f"{check.host}: {check.machine}, {check.cores} cores; {versions}"
    for status, reason, _ in check.backends:
        yield f"{'✗' if reason else '✓'} backend {status.backend}: {reason or format_versions(status.versions)}"
        yield from (f"    {'✓' if tool.is_available else '·'} {tool.name}: {tool.detail}" for tool in status.optional_tools)
    layers = ", ".join(layer.name for layer in check.sandbox if layer.is_active)
    yield f"{'✓' if layers else '·'} sandbox: {layers or 'none: candidates run with your permissions'}"
    yield from (f"    · no {layer.name}: {layer.detail}" for layer in check.sandbox if not layer.is_active)
    if not check.ray_resources:
        yield "\nNo backend can verify on this machine. 'evokernel doctor' shows the reasons."
        return
    if not check.versions["ray"]:
        yield "\nRay is not installed: pip install 'evokernel[ray]'. The executor 'command' does not need it."
    yield f"\nTo add this machine to a Ray cluster:\n  {check.ray_start}"
    yield f"To use this machine over ssh:\n  --set executor=command --set 'executor.command=\"ssh {check.host} evokernel worker\"'"
