"""Which GPU this machine has, asked in a process of its own: the judge holds no context, and a driver that fails takes nobody along."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import isolated_python
from evokernel.core.protocols import DeviceAccess

TIMEOUT_S = 60.0
SPECIAL = 9
"""From this generation on, each has some."""
CARD_VARIABLES = {"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "EAGER"}


class Device(NamedTuple):
    """A GPU, or why there is none."""

    name: str = ""
    driver: str = ""
    facts: dict[str, int] = {}
    why_not: str = ""

    @property
    def architecture(self) -> str:
        """As compilers name it, with the instructions that this one alone has."""
        return f"sm_{self.facts['major']}{self.facts['minor']}{'a' if self.facts['major'] >= SPECIAL else ''}" if self.facts else ""


@lru_cache
def device(number: int = 0) -> Device:
    """The GPU of a number; asked once per process."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return Device(why_not="no NVIDIA GPU")
    try:
        done = subprocess.run(
            isolated_python.isolated_command(__name__, "main", str(number)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return Device(why_not=f"an NVIDIA GPU, but its driver does not answer: {error}")
    return Device(**found)


def main() -> None:
    """In that process."""
    from evokernel.backends.gpu.driver import Absent, DeviceError, Driver

    try:
        driver = Driver(int(sys.argv[2]))
        found = Device(driver.name, driver.version, driver.facts)
    except (Absent, DeviceError) as error:
        found = Device(why_not=str(error))
    sys.stdout.write(json.dumps(found._asdict()) + "\n")


def access() -> DeviceAccess:
    """What a process that runs recorded programs needs: there, nothing of the candidate is on the processor."""
    return DeviceAccess((), (), dict(CARD_VARIABLES), holds_candidate=False)
