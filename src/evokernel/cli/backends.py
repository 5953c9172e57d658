"""`evokernel backends`: lists the kernel languages and whether they work on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evokernel.cli.output import format_table, json_option, print_json, print_text

if TYPE_CHECKING:
    from evokernel.app.machine_checks import BackendStatus


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List backends and whether they work on this machine.

    \b
    Examples:
      evokernel backends
      evokernel backends --json
    """
    from evokernel.app.machine_checks import format_versions, list_backends

    backends = list_backends()
    if as_json:
        print_json([backend_record(status) for status in backends])
        return
    cells = [
        [status.backend, "ready" if status.ready else "unavailable", status.unavailable_reason or format_versions(status.versions)]
        for status in backends
    ]
    print_text(format_table(["backend", "status", "versions, or why it is unavailable"], cells))


def backend_record(status: BackendStatus) -> dict[str, Any]:
    """A backend as JSON."""
    return {**status._asdict(), "optional_tools": [tool._asdict() for tool in status.optional_tools]}
