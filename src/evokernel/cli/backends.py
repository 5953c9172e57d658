"""`evokernel backends`: lists the kernel languages and whether they work on this machine."""

from __future__ import annotations

from typing import Any

import click

from evokernel.cli.output import format_table, json_option, print_json, print_text
from evokernel.core.errors import UserError


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List backends and whether they work on this machine.

    \b
    Examples:
      evokernel backends
      evokernel backends --json
    """
    backends = list_backends()
    if as_json:
        print_json(backends)
        return
    cells = [
        [row["backend"], "ready" if row["ready"] else "unavailable", row["unavailable_reason"] or format_versions(row["versions"])]
        for row in backends
    ]
    print_text(format_table(["backend", "status", "versions, or why it is unavailable"], cells))


def list_backends() -> list[dict[str, Any]]:
    """Every backend with its state; a backend that cannot be loaded is listed with the reason."""
    from evokernel.core import plugins

    rows: list[dict[str, Any]] = []
    for name in plugins.plugin_names("backend"):
        try:
            backend = plugins.make_plugin("backend", name)
            unavailable_reason = backend.unavailable_reason()
            versions = backend.versions() if unavailable_reason is None else {}
            optional_tools = [tool._asdict() for tool in backend.optional_tools()] if unavailable_reason is None else []
        except UserError as error:
            unavailable_reason, versions, optional_tools = str(error), {}, []
        rows.append(
            {
                "backend": name,
                "ready": unavailable_reason is None,
                "unavailable_reason": unavailable_reason,
                "versions": versions,
                "optional_tools": optional_tools,
            }
        )
    return rows


def format_versions(versions: dict[str, str]) -> str:
    """The versions of a toolchain on one line."""
    return "; ".join(f"{name}: {text}" for name, text in versions.items())
