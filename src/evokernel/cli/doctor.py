"""`evokernel doctor`: is everything here that a run needs?"""

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

from evokernel.cli.backends import found as backends
from evokernel.cli.backends import words
from evokernel.cli.bank_options import BankType
from evokernel.cli.output import emit, json_option, tell
from evokernel.core.errors import InfraError, UserError

if TYPE_CHECKING:
    from evokernel.core.bank_uri import BankLocation, ServerUrl

State = Literal["ok", "optional", "missing"]
LEAST_FREE_BYTES = 200e6


class Check(NamedTuple):
    """One thing looked at. `missing` stops the default run, `optional` does not."""

    name: str
    state: State
    detail: str


@click.command()
@click.option(
    "--memory",
    type=BankType(),
    default="evokernel-memory.db",
    metavar="PATH|URL",
    help="The bank to look at: a file, or postgresql://… [evokernel-memory.db]",
)
@json_option
def command(memory: BankLocation, as_json: bool) -> int:
    """Check that everything a run needs is here. Exit code 1 when 'evokernel run' cannot work.

    \b
    Examples:
      evokernel doctor
      evokernel doctor --json
    """
    rows = backends()
    checks = [*system(), *sandbox(), *toolchains(rows), *places(memory), keys(), *local_model()]
    broken = [check for check in checks if check.state == "missing"]
    if as_json:
        emit({"ready": not broken, "checks": [check._asdict() for check in checks]})
    else:
        marks = {"ok": "✓", "optional": "·", "missing": "✗"}
        width = max(len(check.name) for check in checks)
        for check in checks:
            tell(f"{marks[check.state]} {check.name.ljust(width)}  {check.detail}")
        verdict = f"cannot work yet: see {broken[0].name}" if broken else f"can work here{standing_in(rows)}"
        tell(f"\n'evokernel run' {verdict}.")
    return 1 if broken else 0


def system() -> Iterator[Check]:
    """Python, PyTorch, cores."""
    from evokernel.core.config import usable_cores

    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        yield Check("torch", "ok", metadata.version("torch"))
    except metadata.PackageNotFoundError:
        yield Check("torch", "missing", "not installed; references run on it: pip install 'evokernel[torch]'")
    yield Check("cores", "ok", str(usable_cores()))
    try:
        yield Check("ray", "ok", f"{metadata.version('ray')}; 'evokernel worker --check' says what this machine can do for others")
    except metadata.PackageNotFoundError:
        yield Check("ray", "optional", "not installed; only executor ray needs it: pip install 'evokernel[ray]'")


def sandbox() -> Iterator[Check]:
    """The layers that hold between a candidate and this machine, and what each missing one means."""
    from evokernel.sandbox import layers

    found = layers.layers()
    held = ", ".join(f"{layer.name} ({layer.detail})" if layer.detail else layer.name for layer in found if layer.holds)
    yield Check("sandbox", "ok" if held else "optional", held or "none: candidates run as you do")
    for layer in found:
        if not layer.holds:
            fix = f"; {layer.fix}" if layer.fix else ""
            yield Check(f"sandbox {layer.name}", "optional", f"{layer.detail}: {layer.lack}{fix}")


def toolchains(rows: list[dict[str, Any]]) -> Iterator[Check]:
    """Each backend, and what it found besides its tools."""
    default = default_backends()
    ready = {row["backend"] for row in rows if row["ready"]}
    for row in rows:
        lacking: State = "missing" if row["backend"] in default and not ready & set(default) else "optional"
        detail = words(row["versions"]) if row["ready"] else str(row["missing"])
        yield Check(f"backend {row['backend']}", "ok" if row["ready"] else lacking, detail)
        for one in row["equipment"]:
            yield Check(one["name"], "ok" if one["found"] else "optional", one["detail"])


def default_backends() -> tuple[str, str]:
    """The one a run uses when none is chosen, and the one that stands in where that cannot work."""
    from evokernel.app.factory import FALLBACK_BACKEND
    from evokernel.core.config import RunConfig

    return RunConfig().plugin_name("backend"), FALLBACK_BACKEND


def standing_in(rows: list[dict[str, Any]]) -> str:
    """Says so when a run would not use the default backend."""
    default, other = default_backends()
    return "" if any(row["backend"] == default and row["ready"] for row in rows) else f", with backend {other}"


def places(memory: BankLocation) -> Iterator[Check]:
    """Where a run writes."""
    from evokernel.reports.formatting import bytes_size

    here = Path.cwd()
    writable = os.access(here, os.W_OK)
    yield Check("folder", "ok" if writable else "missing", f"{here}" if writable else f"{here} cannot be written: change to another folder")
    free = shutil.disk_usage(here).free
    enough = free >= LEAST_FREE_BYTES
    yield Check("disk", "ok" if enough else "missing", f"{bytes_size(free)} free" + ("" if enough else ": free some space"))
    shm = Path("/dev/shm")
    shared = shm.is_dir() and os.access(shm, os.W_OK)
    yield Check(
        "/dev/shm", "ok" if shared else "optional", "writable" if shared else f"not writable; {tempfile.gettempdir()} is used instead"
    )
    yield client()
    yield bank(memory)


def client() -> Check:
    """What a bank on a server needs here."""
    try:
        return Check("postgres", "ok", f"psycopg {metadata.version('psycopg')}")
    except metadata.PackageNotFoundError:
        return Check("postgres", "optional", "psycopg is not installed; a bank on a server needs it: pip install 'evokernel[postgres]'")


def bank(memory: BankLocation) -> Check:
    """The memory bank a default run would use, or the server that was named."""
    if not isinstance(memory, Path):
        return server(memory)
    if not memory.exists():
        return Check("memory", "ok", f"no bank at {memory} yet; the first run makes it")
    from evokernel.memory.bank import Bank

    try:
        with Bank.read(memory) as archive:
            stats = archive.stats()
    except UserError as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {stats.items} items of {stats.runs} runs")


def server(memory: ServerUrl) -> Check:
    """Whether a server can be reached, what it is, and what it holds."""
    from evokernel.memory import schema

    try:
        found = schema.server().looked_at(memory)
    except (UserError, InfraError) as error:
        return Check("memory", "missing", str(error))
    return Check("memory", "ok", f"{memory}: {found}")


def keys() -> Check:
    """Which model services have a key in the environment; the keys themselves are never read out."""
    file = resources.files("evokernel.llm") / "providers.toml"
    names = {str(provider["key"]) for provider in tomllib.loads(file.read_text()).values() if provider.get("key")}
    there = sorted(name for name in names if os.environ.get(name))
    return Check("model keys", "ok" if there else "optional", ", ".join(there) or "none set; only the llm generator needs one")


def local_model() -> Iterator[Check]:
    """What a model on this machine needs, and how much of it is here."""
    from evokernel.llm import local_server, models

    lacking = local_server.lacking()
    yield Check("model engine", "optional" if lacking else "ok", lacking or local_server.engine_name())
    there = ", ".join(model.name for model in models.fetched())
    yield Check("local model", "ok" if there else "optional", there or "none fetched; one works without a key: evokernel model fetch")
    found = local_server.served()
    if found and found.instances:
        state = found.instances[0].state
        yield Check("served model", "ok" if state == "running" else "optional", f"{found.model}, {state}: {found.instances[0].url}/v1")
