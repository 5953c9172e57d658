"""Queries this machine's GPU in a separate process: the verifier holds no CUDA context, and a failing driver cannot crash it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core.backend import DeviceAccess
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
    """Queries the GPU with this number; once per process."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return Device(unavailable_reason="there is no NVIDIA GPU")
    try:
        query = subprocess.run(
            isolated_python.isolated_command(__name__, "main", str(number)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        fields = json.loads(query.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return Device(unavailable_reason=f"there is an NVIDIA GPU, but its driver does not answer: {error}")
    return Device(**fields)


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
