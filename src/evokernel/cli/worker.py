"""`evokernel worker`: verifies candidates for a run on another machine."""

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
from evokernel.cli.backends import format_versions, list_backends
from evokernel.cli.output import json_option, print_json, print_text
from evokernel.core.errors import UserError

DEVICE_FILES = {"GPU": ("nvidia[0-9]*",), "NPU": ("davinci[0-9]*",), "TPU": ("accel[0-9]*", "vfio/[0-9]*")}
VISIBLE_VARIABLES = {"GPU": "CUDA_VISIBLE_DEVICES", "NPU": "ASCEND_RT_VISIBLE_DEVICES", "TPU": "TPU_VISIBLE_CHIPS"}


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
    report = check_machine()
    print_json(report) if as_json else print_text("\n".join(format_check(report)))
    return 0 if report["ray_resources"] else 1


def check_machine() -> dict[str, Any]:
    """What this machine can do for a run."""
    from evokernel.core.config import usable_cores
    from evokernel.executors import ray_resources
    from evokernel.sandbox import layers

    cores, rows = (
        usable_cores(),
        [row | {"cannot_verify_reason": cannot_verify_reason(row), "devices": count_devices(row)} for row in list_backends()],
    )
    ray_labels: dict[str, int] = {}
    for row in rows:
        if row["cannot_verify_reason"] is None:
            ray_labels[ray_resources.backend_resource(row["backend"])] = max(cores, *row["devices"].values(), 1)
            ray_labels |= {ray_resources.device_resource(row["backend"]): count for count in row["devices"].values()}
    accelerators = {kind: count for row in rows for kind, count in row["devices"].items()}
    return {
        "host": socket.gethostname(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "versions": {
            "evokernel": __version__,
            "python": platform.python_version(),
            "torch": package_version("torch"),
            "ray": package_version("ray"),
        },
        "backends": rows,
        "sandbox": [{"layer": layer.name, "is_active": layer.is_active, "detail": layer.detail} for layer in layers.list_layers()],
        "ray_resources": ray_labels,
        "ray_start": ray_resources.make_start_command(cores, ray_labels, accelerators),
    }


def cannot_verify_reason(row: dict[str, Any]) -> str | None:
    """Why the backend cannot verify on this machine; None if it can."""
    from evokernel.core.plugins import make_plugin

    if not row["ready"]:
        return str(row["unavailable_reason"])
    capabilities = make_plugin("backend", row["backend"]).capabilities
    return None if capabilities.can_check_values else str(capabilities.limitations)


def count_devices(row: dict[str, Any]) -> dict[str, int]:
    """The devices of a backend by Ray's name for them; devices hidden by an environment variable do not count."""
    device_kinds = {tool["name"].upper() for tool in row["optional_tools"] if tool["is_available"]} & DEVICE_FILES.keys()
    counts = {}
    for kind in device_kinds:
        files = [path for pattern in DEVICE_FILES[kind] for path in Path("/dev").glob(pattern)]
        visible = os.environ.get(VISIBLE_VARIABLES[kind])
        counts[kind] = len(visible.split(",")) if visible else max(1, len(files))
    return counts


def package_version(package: str) -> str | None:
    """The installed version; None if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def format_check(report: dict[str, Any]) -> Iterator[str]:
    """The result of the check as text lines."""
    versions = ", ".join(f"{name} {text or 'not installed'}" for name, text in report["versions"].items())
    yield f"{report['host']}: {report['machine']}, {report['cores']} cores; {versions}"
    for row in report["backends"]:
        state = "✗" if row["cannot_verify_reason"] else "✓"
        yield f"{state} backend {row['backend']}: {row['cannot_verify_reason'] or format_versions(row['versions'])}"
        yield from (f"    {'✓' if tool['is_available'] else '·'} {tool['name']}: {tool['detail']}" for tool in row["optional_tools"])
    layers = ", ".join(layer["layer"] for layer in report["sandbox"] if layer["is_active"])
    yield f"{'✓' if layers else '·'} sandbox: {layers or 'none: candidates run with your permissions'}"
    yield from (f"    · no {layer['layer']}: {layer['detail']}" for layer in report["sandbox"] if not layer["is_active"])
    if not report["ray_resources"]:
        yield "\nNo backend can verify on this machine. 'evokernel doctor' shows the reasons."
        return
    if not report["versions"]["ray"]:
        yield "\nRay is not installed: pip install 'evokernel[ray]'. The executor 'command' does not need it."
    yield f"\nTo add this machine to a Ray cluster:\n  {report['ray_start']}"
    yield (
        "To use this machine over ssh:\n  --set executor=command --set 'executor.command=\"ssh " + report["host"] + " evokernel worker\"'"
    )
