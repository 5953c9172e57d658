"""Checks what this machine can verify for a run on another machine, and how to add it to a Ray cluster."""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from evokernel import __version__
from evokernel.app.machine_checks import BackendStatus, list_backends
from evokernel.core.cores import usable_cores
from evokernel.core.plugins import make_plugin
from evokernel.executors import ray_resources
from evokernel.sandbox import layers
from evokernel.sandbox.layers import Layer

DEVICE_FILES = {"GPU": ("nvidia[0-9]*",), "NPU": ("davinci[0-9]*",), "TPU": ("accel[0-9]*", "vfio/[0-9]*")}
VISIBLE_VARIABLES = {"GPU": "CUDA_VISIBLE_DEVICES", "NPU": "ASCEND_RT_VISIBLE_DEVICES", "TPU": "TPU_VISIBLE_CHIPS"}


class WorkerBackend(NamedTuple):
    """A backend of this machine as a worker."""

    status: BackendStatus
    cannot_verify_reason: str | None
    devices: dict[str, int]
    """Number of devices by Ray's name for them."""


class WorkerCheck(NamedTuple):
    """What this machine can do for a run."""

    host: str
    machine: str
    cores: int
    versions: dict[str, str | None]
    backends: tuple[WorkerBackend, ...]
    sandbox: tuple[Layer, ...]
    ray_resources: dict[str, int]
    ray_start: str


def check_worker() -> WorkerCheck:
    """Return what this machine can do for a run."""
    cores = usable_cores()
    backends = tuple(WorkerBackend(status, cannot_verify_reason(status), count_devices(status)) for status in list_backends())
    ray_labels: dict[str, int] = {}
    for status, reason, devices in backends:
        if reason is None:
            ray_labels[ray_resources.backend_resource(status.backend)] = max(cores, *devices.values(), 1)
            ray_labels |= {ray_resources.device_resource(status.backend): count for count in devices.values()}
    accelerators = {kind: count for one in backends for kind, count in one.devices.items()}
    return WorkerCheck(
        host=socket.gethostname(),
        machine=f"{platform.system()} {platform.machine()}",
        cores=cores,
        versions={
            "evokernel": __version__,
            "python": platform.python_version(),
            "torch": package_version("torch"),
            "ray": package_version("ray"),
        },
        backends=backends,
        sandbox=tuple(layers.list_layers()),
        ray_resources=ray_labels,
        ray_start=ray_resources.make_start_command(cores, ray_labels, accelerators),
    )


def cannot_verify_reason(status: BackendStatus) -> str | None:
    """Return why the backend cannot verify on this machine; None if it can."""
    if not status.ready:
        return str(status.unavailable_reason)
    capabilities = make_plugin("backend", status.backend).capabilities
    return None if capabilities.can_check_values else str(capabilities.limitations)


def count_devices(status: BackendStatus) -> dict[str, int]:
    """Return the devices of a backend by Ray's name for them; devices hidden by an environment variable do not count."""
    device_kinds = {tool.name.upper() for tool in status.optional_tools if tool.is_available} & DEVICE_FILES.keys()
    counts = {}
    for kind in device_kinds:
        files = [path for pattern in DEVICE_FILES[kind] for path in Path("/dev").glob(pattern)]
        visible = os.environ.get(VISIBLE_VARIABLES[kind])
        counts[kind] = len(visible.split(",")) if visible else max(1, len(files))
    return counts


def package_version(package: str) -> str | None:
    """Return the installed version; None if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
