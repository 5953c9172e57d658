"""`evokernel worker`: the other end of the executors that judge elsewhere."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from evokernel import __version__
from evokernel.cli.backends import found as backends
from evokernel.cli.backends import words
from evokernel.cli.output import emit, json_option, tell
from evokernel.core.errors import UserError

DEVICE_FILES = {"GPU": ("nvidia[0-9]*",), "NPU": ("davinci[0-9]*",), "TPU": ("accel[0-9]*", "vfio/[0-9]*")}
VISIBLE = {"GPU": "CUDA_VISIBLE_DEVICES", "NPU": "ASCEND_RT_VISIBLE_DEVICES", "TPU": "TPU_VISIBLE_CHIPS"}


@click.command()
@click.option("--check", is_flag=True, help="Say what this machine can judge, and how to start Ray on it; reads no job.")
@click.option("--once", is_flag=True, help="Answer one job, read to the end of stdin, and end.")
@json_option
def command(check: bool, once: bool, as_json: bool) -> int:
    """Judge for a run on another machine: reads jobs on stdin, a line of JSON each, and answers each with a line of JSON.

    It serves until its stdin ends. Executor 'command' starts it over ssh or in a container; executor 'ray' starts its own.

    \b
    Examples:
      evokernel worker --check
      evokernel worker --check --json
      evokernel worker --once < job.json
      evokernel run --set executor=command --set 'executor.command="ssh box evokernel worker"'

    Exit codes: 0 done, 1 with --check where no backend works, 2 something to fix.
    """
    if not check:
        if os.isatty(0):
            raise UserError("no job on stdin: 'evokernel worker' is started by an executor; 'evokernel worker --check' is for people")
        from evokernel.executors.worker import main

        main(once)
        return 0
    report = checked()
    emit(report) if as_json else tell("\n".join(page(report)))
    return 0 if report["labels"] else 1


def checked() -> dict[str, Any]:
    """What this machine can do for a run."""
    from evokernel.core.config import usable_cores
    from evokernel.executors import ray_resources
    from evokernel.sandbox import layers

    cores, rows = usable_cores(), [row | {"why_not": why_not(row), "devices": devices(row)} for row in backends()]
    offers: dict[str, int] = {}
    for row in rows:
        if row["why_not"] is None:
            offers[ray_resources.backend(row["backend"])] = max(cores, *row["devices"].values(), 1)
            offers |= {ray_resources.device(row["backend"]): count for count in row["devices"].values()}
    accelerators = {kind: count for row in rows for kind, count in row["devices"].items()}
    return {
        "host": socket.gethostname(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "versions": {"evokernel": __version__, "python": platform.python_version(), "torch": version("torch"), "ray": version("ray")},
        "backends": rows,
        "sandbox": [{"layer": layer.name, "holds": layer.holds, "detail": layer.detail} for layer in layers.layers()],
        "labels": offers,
        "ray_start": ray_resources.start_command(cores, offers, accelerators),
    }


def why_not(row: dict[str, Any]) -> str | None:
    """Why a backend can judge nothing here; None when it can."""
    from evokernel.core.plugins import make_plugin
    from evokernel.core.protocols import PartialBackend

    if not row["ready"]:
        return str(row["missing"])
    backend = make_plugin("backend", row["backend"])
    return backend.limitations() if isinstance(backend, PartialBackend) and not backend.can_check_values else None


def devices(row: dict[str, Any]) -> dict[str, int]:
    """The devices a backend found, by Ray's word for them; what a variable hides does not count."""
    found = {one["name"].upper() for one in row["equipment"] if one["found"]} & DEVICE_FILES.keys()
    counted = {}
    for kind in found:
        files = [path for pattern in DEVICE_FILES[kind] for path in Path("/dev").glob(pattern)]
        shown = os.environ.get(VISIBLE[kind])
        counted[kind] = len(shown.split(",")) if shown else max(1, len(files))
    return counted


def version(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def page(report: dict[str, Any]) -> Iterator[str]:
    """For people."""
    told = ", ".join(f"{name} {text or 'not installed'}" for name, text in report["versions"].items())
    yield f"{report['host']}: {report['machine']}, {report['cores']} cores; {told}"
    for row in report["backends"]:
        state = "✗" if row["why_not"] else "✓"
        yield f"{state} backend {row['backend']}: {row['why_not'] or words(row['versions'])}"
        yield from (f"    {'✓' if one['found'] else '·'} {one['name']}: {one['detail']}" for one in row["equipment"])
    held = ", ".join(layer["layer"] for layer in report["sandbox"] if layer["holds"])
    yield f"{'✓' if held else '·'} sandbox: {held or 'none: candidates run as you do'}"
    yield from (f"    · no {layer['layer']}: {layer['detail']}" for layer in report["sandbox"] if not layer["holds"])
    if not report["labels"]:
        yield "\nno backend can judge here; 'evokernel doctor' says what each lacks"
        return
    if not report["versions"]["ray"]:
        yield "\nRay is not installed here: pip install 'evokernel[ray]'. Executor 'command' needs no more than this program."
    yield f"\nto offer this to a Ray cluster:\n  {report['ray_start']}"
    yield (
        "to a run that reaches it by ssh:\n  --set executor=command --set 'executor.command=\"ssh "
        + report["host"]
        + " evokernel worker\"'"
    )
