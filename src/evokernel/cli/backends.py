"""`evokernel backends`: what kernels can be written in, here."""

from __future__ import annotations

from typing import Any

import click

from evokernel.cli.output import draw, emit, json_option, tell
from evokernel.core.errors import UserError


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List backends, and whether they work here.

    \b
    Examples:
      evokernel backends
      evokernel backends --json
    """
    rows = found()
    if as_json:
        emit(rows)
        return
    cells = [[row["backend"], "ready" if row["ready"] else "not here", row["missing"] or words(row["versions"])] for row in rows]
    tell(draw(["backend", "status", "what it uses, or what it lacks"], cells))


def found() -> list[dict[str, Any]]:
    """Every backend with its state; one that cannot even be loaded is listed with the reason."""
    from evokernel.core import plugins

    rows: list[dict[str, Any]] = []
    for name in plugins.plugin_names("backend"):
        try:
            backend = plugins.make_plugin("backend", name)
            missing = backend.missing()
            versions = backend.versions() if missing is None else {}
            equipment = [one._asdict() for one in backend.equipment()] if missing is None else []
        except UserError as error:
            missing, versions, equipment = str(error), {}, []
        rows.append({"backend": name, "ready": missing is None, "missing": missing, "versions": versions, "equipment": equipment})
    return rows


def words(versions: dict[str, str]) -> str:
    """A toolchain on one line."""
    return "; ".join(f"{name}: {text}" for name, text in versions.items())
