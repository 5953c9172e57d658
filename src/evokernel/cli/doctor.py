"""`evokernel doctor`: checks that this machine has everything a run needs."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from evokernel.cli.backends import format_versions, list_backends
from evokernel.cli.bank_options import BankType
from evokernel.cli.output import json_option, print_json, print_text
from evokernel.core.errors import InfraError, UserError
from evokernel.core.labels import format_count

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation, ServerUrl

State = Literal["ok", "optional", "missing"]
MIN_FREE_BYTES = 200e6


class Check(NamedTuple):
    """The result of one check. `missing` prevents the default run, `optional` does not."""

    name: str
    state: State
    detail: str


@click.command()
@click.option(
    "--memory",
    type=BankType(),
    default="evokernel-memory.db",
    metavar="PATH|URL",
    help="Memory bank to check: a file, or postgresql://… [evokernel-memory.db]",
)
@json_option
def command(memory: BankLocation, as_json: bool) -> int:
    """Check the installation and suggest fixes. Exit code 1 if 'evokernel run' cannot work.

    \b
    Examples:
      evokernel doctor
      evokernel doctor --json
    """
    backends = list_backends()
    checks = [
        *check_system(),
        *check_sandbox(),
        *check_backends(backends),
        *check_storage(memory),
        check_model_keys(),
        *check_local_model(),
    ]
    missing = [check for check in checks if check.state == "missing"]
    if as_json:
        print_json({"ready": not missing, "checks": [check._asdict() for check in checks]})
    else:
        marks = {"ok": "✓", "optional": "·", "missing": "✗"}
        width = max(len(check.name) for check in checks)
        for check in checks:
            print_text(f"{marks[check.state]} {check.name.ljust(width)}  {check.detail}")
        conclusion = f"cannot work yet: fix {missing[0].name}" if missing else f"can work on this machine{fallback_note(backends)}"
        print_text(f"\n'evokernel run' {conclusion}.")
    return 1 if missing else 0


def check_system() -> Iterator[Check]:
    """Python, PyTorch, cores and Ray."""
    from evokernel.core.config import usable_cores

    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        yield Check("torch", "ok", metadata.version("torch"))
    except metadata.PackageNotFoundError:
        yield Check("torch", "missing", "not installed; references need it: pip install 'evokernel[torch]'")
    yield Check("cores", "ok", str(usable_cores()))
    try:
        yield Check("ray", "ok", f"{metadata.version('ray')}; 'evokernel worker --check' shows what this machine can do for other machines")
    except metadata.PackageNotFoundError:
        yield Check("ray", "optional", "not installed; only the executor 'ray' needs it: pip install 'evokernel[ray]'")


def check_sandbox() -> Iterator[Check]:
    """The active layers of the sandbox, and what each missing layer means."""
    from evokernel.sandbox import layers

    all_layers = layers.list_layers()
    active_layers = ", ".join(f"{layer.name} ({layer.detail})" if layer.detail else layer.name for layer in all_layers if layer.is_active)
    yield Check("sandbox", "ok" if active_layers else "optional", active_layers or "none: candidates run with your permissions")
    for layer in all_layers:
        if not layer.is_active:
            fix = f"; {layer.fix}" if layer.fix else ""
            yield Check(f"sandbox {layer.name}", "optional", f"{layer.detail}: {layer.risk}{fix}")


def check_backends(rows: list[dict[str, Any]]) -> Iterator[Check]:
    """Each backend, and the optional tools that it found."""
    default_names = default_backends()
    ready = {row["backend"] for row in rows if row["ready"]}
    for row in rows:
        missing_state: State = "missing" if row["backend"] in default_names and not ready & set(default_names) else "optional"
        detail = format_versions(row["versions"]) if row["ready"] else str(row["unavailable_reason"])
        yield Check(f"backend {row['backend']}", "ok" if row["ready"] else missing_state, detail)
        for tool in row["optional_tools"]:
            yield Check(tool["name"], "ok" if tool["is_available"] else "optional", tool["detail"])


def default_backends() -> tuple[str, str]:
    """The default backend, and the backend that replaces it if it cannot work."""
    from evokernel.app.factory import FALLBACK_BACKEND
    from evokernel.core.config import RunConfig

    return RunConfig().plugin_name("backend"), FALLBACK_BACKEND


def fallback_note(rows: list[dict[str, Any]]) -> str:
    """A note if a run would not use the default backend."""
    default, other = default_backends()
    return "" if any(row["backend"] == default and row["ready"] for row in rows) else f", with backend {other}"


def check_storage(memory: BankLocation) -> Iterator[Check]:
    """The folders and files that a run writes."""
    from evokernel.reports.formatting import format_bytes

    folder = Path.cwd()
    is_writable = os.access(folder, os.W_OK)
    yield Check(
        "folder", "ok" if is_writable else "missing", f"{folder}" if is_writable else f"{folder} is not writable: change to another folder"
    )
    free = shutil.disk_usage(folder).free
    has_space = free >= MIN_FREE_BYTES
    yield Check("disk", "ok" if has_space else "missing", f"{format_bytes(free)} free" + ("" if has_space else ": free some space"))
    shm = Path("/dev/shm")
    is_usable = shm.is_dir() and os.access(shm, os.W_OK)
    yield Check(
        "/dev/shm",
        "ok" if is_usable else "optional",
        "writable" if is_usable else f"not writable; runs use {tempfile.gettempdir()} instead",
    )
    yield check_postgres_client()
    yield check_bank(memory)


def check_postgres_client() -> Check:
    """The package that a bank on a database server needs."""
    try:
        return Check("postgres", "ok", f"psycopg {metadata.version('psycopg')}")
    except metadata.PackageNotFoundError:
        return Check(
            "postgres", "optional", "psycopg is not installed; a bank on a database server needs it: pip install 'evokernel[postgres]'"
        )


def check_bank(memory: BankLocation) -> Check:
    """The memory bank of a default run, or the server that was named."""
    if not isinstance(memory, Path):
        return check_bank_server(memory)
    if not memory.exists():
        return Check("memory", "ok", f"no bank at {memory} yet; the first run creates it")
    from evokernel.memory.bank import Bank

    try:
        with Bank.open_reader(memory) as archive:
            stats = archive.compute_stats()
    except UserError as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {format_count(stats.items, 'item')} from {format_count(stats.runs, 'run')}")


def check_bank_server(memory: ServerUrl) -> Check:
    """Whether the database server can be reached, its version and its content."""
    from evokernel.memory import schema

    try:
        description = schema.import_postgres().describe_server(memory)
    except (UserError, InfraError) as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {description}")


def check_model_keys() -> Check:
    """Which model services have an API key in the environment; never prints a key."""
    file = resources.files("evokernel.llm") / "providers.toml"
    names = {str(provider["key_variable"]) for provider in tomllib.loads(file.read_text()).values() if provider.get("key_variable")}
    set_names = sorted(name for name in names if os.environ.get(name))
    return Check("model keys", "ok" if set_names else "optional", ", ".join(set_names) or "none set; only the generator 'llm' needs one")


def check_local_model() -> Iterator[Check]:
    """What a local model needs, and which parts are installed."""
    from evokernel.llm import local_server, models

    missing_engine = local_server.find_missing_engine()
    yield Check("model engine", "optional" if missing_engine else "ok", missing_engine or local_server.describe_engine())
    model_names = ", ".join(model.name for model in models.list_downloaded_models())
    yield Check(
        "local model",
        "ok" if model_names else "optional",
        model_names or "none fetched; a local model needs no API key: evokernel model fetch",
    )
    server = local_server.read_state()
    if server and server.instances:
        state = server.instances[0].state
        yield Check("served model", "ok" if state == "running" else "optional", f"{server.model}, {state}: {server.instances[0].url}/v1")
