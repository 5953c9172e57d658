"""The provenance of memory items: the metadata of every run that wrote some, stored in the bank so that it outlasts the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from evokernel.core.config import RunConfig
from evokernel.core.errors import UserError
from evokernel.core.records import Record
from evokernel.core.run import Run
from evokernel.memory.tables import Connection


class RunMetadata(Record):
    """The environment and settings of a run; None for a fact that was not recorded."""

    backend: str | None = None
    versions: dict[str, str] | None = None
    """Versions of evokernel, Python and the backend's toolchain."""
    hardware: dict[str, str] | None = None
    generator: str | None = None
    model: str | None = None
    policy: str | None = None
    protocol: str | None = None
    clock: str | None = None
    seed: int | None = None


class RunProvenance(RunMetadata):
    """A run that wrote items or value updates of a pack, with their numbers."""

    run: str
    items: int
    updates: int


def make_metadata(config: RunConfig, environment: Mapping[str, Mapping[str, str]]) -> RunMetadata:
    """The metadata of a run, from its settings and its recorded environment."""
    model = config.plugin_settings("generator").get("model")
    return RunMetadata(
        backend=config.plugin_name("backend"),
        versions=dict(environment["versions"]) if environment.get("versions") else None,
        hardware=dict(environment["hardware"]) if environment.get("hardware") else None,
        generator=config.plugin_name("generator"),
        model=str(model) if model else None,
        policy=config.plugin_name("policy"),
        protocol=config.protocol,
        clock=config.clock,
        seed=config.seed,
    )


def store_metadata(connection: Connection, run: str, metadata: RunMetadata) -> None:
    """Store the metadata of a run, unless the bank has it already; the caller holds a transaction."""
    row = (run, metadata.model_dump_json(exclude_none=True))
    connection.execute("INSERT INTO provenance VALUES (?, ?) ON CONFLICT DO NOTHING", row)


def load_all_metadata(connection: Connection) -> dict[str, RunMetadata]:
    """Metadata by run: from the bank, else from the run folder if it still exists, else only the backend."""
    metadata: dict[str, RunMetadata] = {}
    for run, text in connection.execute("SELECT run, metadata FROM provenance ORDER BY run").fetchall():
        with suppress(ValidationError):  # written by another evokernel with more fields
            metadata[run] = RunMetadata.model_validate_json(text)
    for run, backend, folder in connection.execute("SELECT id, backend, folder FROM runs ORDER BY id").fetchall():
        if run not in metadata:
            metadata[run] = (read_run_folder(Path(folder), run) if folder else None) or RunMetadata(backend=backend)
    return metadata


def read_run_folder(folder: Path, run_id: str) -> RunMetadata | None:
    """The metadata in a run folder; None unless the folder still belongs to that run."""
    with suppress(UserError):
        run = Run.open(folder)
        if run.config.id == run_id:
            return make_metadata(run.config, run.environment)
    return None
