"""Queries this machine's GPU in a separate process: the verifier holds no CUDA context, and a failing driver cannot crash it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import paths
from evokernel.core.backend import DeviceAccess
from evokernel.core.devices import DEVICE_VARIABLE
from evokernel.sandbox import isolated_python

TIMEOUT_S = 60.0
FIRST_SPECIFIC_MAJOR = 9
"""From this compute capability on, each architecture has specific instructions (suffix a)."""
CUDA_VARIABLES = {"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "EAGER"}


class Device(NamedTuple):
    """A GPU, or the reason why there is none."""

    name: str = ""
    driver: str = ""
    attributes: dict[str, int] = {}
    unavailable_reason: str = ""
    memory_bytes: int = 0

    @property
    def architecture(self) -> str:
        """The compiler's name of the architecture, including its specific instructions."""
        return (
            f"sm_{self.attributes['major']}{self.attributes['minor']}{'a' if self.attributes['major'] >= FIRST_SPECIFIC_MAJOR else ''}"
            if self.attributes
            else ""
        )


@lru_cache
def query_device(number: int = 0) -> Device:
    """Queries the GPU with this number; once per process, and once per machine and driver if the system describes both."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return Device(unavailable_reason="there is no NVIDIA GPU")
    device = read_device(os.environ.get(DEVICE_VARIABLE, ""), number) or load_device(number)
    if device is None:
        try:
            query = subprocess.run(
                isolated_python.isolated_command(__name__, "main", str(number)),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            device = Device(**json.loads(query.stdout.splitlines()[-1]))
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            return Device(unavailable_reason=f"there is an NVIDIA GPU, but its driver does not answer: {error}")
        store_device(number, device)
    os.environ[DEVICE_VARIABLE] = json.dumps([number, device._asdict()])
    return device


def read_device(text: str, number: int) -> Device | None:
    """Reads the device that another process found."""
    try:
        found_number, fields = json.loads(text)
        return Device(**fields) if found_number == number and fields["name"] else None
    except (ValueError, TypeError, KeyError):
        return None


def device_file(number: int) -> Path | None:
    """Returns the file that keeps what a query found; its name has the driver, the GPUs and the boot of this machine."""
    folder = Path("/proc/driver/nvidia")
    try:
        parts = [(folder / "version").read_text(), *sorted(path.read_text() for path in folder.glob("gpus/*/information"))]
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), str(number)]
    except OSError:
        return None
    return paths.cache_folder() / "devices" / f"gpu-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.json"


def load_device(number: int) -> Device | None:
    """Loads what an earlier query on this machine found."""
    file = device_file(number)
    try:
        return read_device(file.read_text(), number) if file else None
    except OSError:
        return None


def store_device(number: int, device: Device) -> None:
    """Stores what a query found for later processes."""
    file = device_file(number)
    if file and device.name:
        with suppress(OSError):
            paths.write_bytes(file, json.dumps([number, device._asdict()]).encode())


def main() -> None:
    """Entry point of the query process."""
    from evokernel.backends.gpu.driver import DeviceError, Driver, DriverMissing

    try:
        driver = Driver(int(sys.argv[2]))
        device = Device(driver.name, driver.version, driver.attributes, memory_bytes=driver.memory_bytes)
    except (DriverMissing, DeviceError) as error:
        device = Device(unavailable_reason=str(error))
    sys.stdout.write(json.dumps(device._asdict()) + "\n")


def device_access() -> DeviceAccess:
    """Returns the access for a process that runs recorded programs; it contains no host code of the candidate."""
    return DeviceAccess((), (), dict(CUDA_VARIABLES), holds_candidate=False)
