"""Where memories come from: what is known of each run that wrote some, kept in the bank, where it outlasts the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.records import Record
from evokernel.core.run import Run
from evokernel.memory.tables import Connection, version_of


class Facts(Record):
    """What is known of a run; what nobody noted is None."""

    backend: str | None = None
    versions: dict[str, str] | None = None
    """Of evokernel, of Python and of the backend's toolchain."""
    hardware: dict[str, str] | None = None
    generator: str | None = None
    model: str | None = None
    policy: str | None = None
    protocol: str | None = None
    clock: str | None = None
    seed: int | None = None


class Origin(Facts):
    """A run that a pack's items or values come from."""

    run: str
    items: int
    updates: int


def facts(config: RunConfig, found: Mapping[str, Mapping[str, str]]) -> Facts:
    """Of a run, from its settings and what it was made on."""
    model = config.plugin_settings("generator").get("model")
    return Facts(
        backend=config.plugin_name("backend"),
        versions=dict(found["versions"]) if found.get("versions") else None,
        hardware=dict(found["hardware"]) if found.get("hardware") else None,
        generator=config.plugin_name("generator"),
        model=str(model) if model else None,
        policy=config.plugin_name("policy"),
        protocol=config.protocol,
        clock=config.clock,
        seed=config.seed,
    )


def keep(connection: Connection, run: str, known: Facts) -> None:
    """Notes what is known of a run, inside the caller's transaction; what was noted when it began stays."""
    connection.execute("INSERT INTO origins VALUES (?, ?) ON CONFLICT DO NOTHING", (run, known.model_dump_json(exclude_none=True)))


def all_known(connection: Connection) -> dict[str, Facts]:
    """By run: as noted; for runs of an older evokernel what their folder tells, where it is still there, else only the backend."""
    version, found = version_of(connection), {}
    if version >= 3:
        for run, noted in connection.execute("SELECT run, facts FROM origins ORDER BY run").fetchall():
            with suppress(ValidationError):  # noted by another evokernel that knew more
                found[run] = Facts.model_validate_json(noted)
    folder = "folder" if version >= 2 else "''"
    for run, backend, place in connection.execute(f"SELECT id, backend, {folder} FROM runs ORDER BY id").fetchall():
        if run not in found:
            found[run] = (in_folder(Path(place), run) if place else None) or Facts(backend=backend)
    return found


def in_folder(folder: Path, run: str) -> Facts | None:
    """What a run's folder tells, if it is still that run's."""
    with suppress(UserError):
        opened = Run.open(folder)
        if opened.config.id == run:
            return facts(opened.config, opened.facts)
    return None
