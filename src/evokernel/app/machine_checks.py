"""Checks that this machine has everything a run needs: system, sandbox, backends, storage, models."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Literal, NamedTuple

from evokernel.app.factory import FALLBACK_BACKEND
from evokernel.core import plugins
from evokernel.core.backend import OptionalTool
from evokernel.core.bank_uri import BankLocation, ServerUrl
from evokernel.core.config import RunConfig
from evokernel.core.cores import usable_cores
from evokernel.core.errors import InfraError, UserError
from evokernel.core.labels import format_count
from evokernel.core.requirements import require_extra
from evokernel.llm import local_server, models
from evokernel.memory import schema
from evokernel.memory.bank import Bank
from evokernel.reports.formatting import format_bytes
from evokernel.sandbox import layers

State = Literal["ok", "optional", "missing"]
MIN_FREE_BYTES = 200e6


class Check(NamedTuple):
    """The result of one check. `missing` prevents the default run, `optional` does not."""

    name: str
    state: State
    detail: str


class BackendStatus(NamedTuple):
    """Whether a backend works on this machine."""

    backend: str
    ready: bool
    unavailable_reason: str | None
    versions: dict[str, str]
    optional_tools: tuple[OptionalTool, ...]


def list_backends() -> list[BackendStatus]:
    """Return every backend with its state; a backend that cannot be loaded is listed with the reason."""
    return [check_backend(name) for name in plugins.plugin_names("backend")]


def check_backend(name: str) -> BackendStatus:
    """Return the state of one backend."""
    try:
        backend = plugins.make_plugin("backend", name)
        if (reason := backend.unavailable_reason()) is None:
            return BackendStatus(name, True, None, backend.versions(), tuple(backend.optional_tools()))
    except UserError as error:
        reason = str(error)
    return BackendStatus(name, False, reason, {}, ())


def check_machine(memory: BankLocation, backends: Sequence[BackendStatus]) -> list[Check]:
    """Return all checks; `memory` is the bank of the run."""
    return [
        *check_system(),
        *check_sandbox(),
        *check_backends(backends),
        *check_storage(memory),
        check_model_keys(),
        *check_local_model(),
    ]


def check_system() -> Iterator[Check]:
    """Check Python, PyTorch, cores and Ray."""
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
    try:
        yield Check("mcp", "ok", f"{metadata.version('mcp')}; 'evokernel mcp' serves tools to agents")
    except metadata.PackageNotFoundError:
        yield Check("mcp", "optional", "not installed; 'evokernel mcp' and the generator 'agent' need it: pip install 'evokernel[mcp]'")
    yield check_service_packages()


def check_service_packages() -> Check:
    """Check the packages that `evokernel serve` needs."""
    try:
        require_extra("'evokernel serve'", "serve", ("fastapi", "uvicorn", "prometheus_client"))
    except UserError as error:
        return Check("service", "optional", str(error))
    return Check("service", "ok", f"fastapi {metadata.version('fastapi')}")


def check_sandbox() -> Iterator[Check]:
    """Check the layers of the sandbox; say what each missing layer means."""
    all_layers = layers.list_layers()
    active_layers = ", ".join(f"{layer.name} ({layer.detail})" if layer.detail else layer.name for layer in all_layers if layer.is_active)
    yield Check("sandbox", "ok" if active_layers else "optional", active_layers or "none: candidates run with your permissions")
    for layer in all_layers:
        if not layer.is_active:
            fix = f"; {layer.fix}" if layer.fix else ""
            yield Check(f"sandbox {layer.name}", "optional", f"{layer.detail}: {layer.risk}{fix}")


def check_backends(statuses: Sequence[BackendStatus]) -> Iterator[Check]:
    """Check each backend, and the optional tools that it found."""
    default_names = default_backends()
    ready = {status.backend for status in statuses if status.ready}
    for status in statuses:
        missing_state: State = "missing" if status.backend in default_names and not ready & set(default_names) else "optional"
        detail = format_versions(status.versions) if status.ready else str(status.unavailable_reason)
        yield Check(f"backend {status.backend}", "ok" if status.ready else missing_state, detail)
        for tool in status.optional_tools:
            yield Check(tool.name, "ok" if tool.is_available else "optional", tool.detail)


def format_versions(versions: Mapping[str, str]) -> str:
    """Return the versions of a toolchain on one line."""
    return "; ".join(f"{name}: {text}" for name, text in versions.items())


def default_backends() -> tuple[str, str]:
    """Return the default backend, and the backend that replaces it if it cannot work."""
    return RunConfig().plugin_name("backend"), FALLBACK_BACKEND


def run_backend(statuses: Sequence[BackendStatus]) -> str:
    """Return the backend that a run without settings would use."""
    default, other = default_backends()
    return default if any(status.backend == default and status.ready for status in statuses) else other


def check_storage(memory: BankLocation) -> Iterator[Check]:
    """Check the folders and files that a run writes."""
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
    """Check the package that a bank on a database server needs."""
    try:
        return Check("postgres", "ok", f"psycopg {metadata.version('psycopg')}")
    except metadata.PackageNotFoundError:
        return Check(
            "postgres", "optional", "psycopg is not installed; a bank on a database server needs it: pip install 'evokernel[postgres]'"
        )


def check_bank(memory: BankLocation) -> Check:
    """Check the memory bank of a default run, or the server that was named."""
    if not isinstance(memory, Path):
        return check_bank_server(memory)
    if not memory.exists():
        return Check("memory", "ok", f"no bank at {memory} yet; the first run creates it")
    try:
        with Bank.open_reader(memory) as archive:
            stats = archive.compute_stats()
    except UserError as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {format_count(stats.items, 'item')} from {format_count(stats.runs, 'run')}")


def check_bank_server(memory: ServerUrl) -> Check:
    """Check that the database server can be reached; name its version and its content."""
    try:
        description = schema.import_postgres().describe_server(memory)
    except (UserError, InfraError) as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {description}")


def check_model_keys() -> Check:
    """Check which model services have an API key in the environment; never prints a key."""
    file = resources.files("evokernel.llm") / "providers.toml"
    names = {str(provider["key_variable"]) for provider in tomllib.loads(file.read_text()).values() if provider.get("key_variable")}
    set_names = sorted(name for name in names if os.environ.get(name))
    return Check("model keys", "ok" if set_names else "optional", ", ".join(set_names) or "none set; only the generator 'llm' needs one")


def check_local_model() -> Iterator[Check]:
    """Check what a local model needs."""
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
