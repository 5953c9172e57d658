"""The judge's end of the clock: one process per judge and device, one order at a time on the machine, started again when it is gone."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from typing import IO, Any

from evokernel.backends.gpu import ceilings
from evokernel.backends.gpu.devices import Device
from evokernel.core import isolated_python
from evokernel.core.devices import hold_device, physical_device
from evokernel.core.errors import CandidateError, InfraError, UserError

START_S, ANSWER_S = 120.0, 300.0
VISIBLE = "CUDA_VISIBLE_DEVICES"
TIMERS: dict[int, Timer] = {}


class Timer:
    """A process with the clock in it."""

    def __init__(self, number: int) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            isolated_python.isolated_command("evokernel.backends.gpu.timing_server", "main", str(number)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            process_group=0,
        )
        self.buffer = b""
        found = self.line(START_S)
        if "infra" in found:
            raise InfraError(found["infra"])

    def ask(self, order: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise InfraError(f"the process with the clock is gone: {error}; {self.said()}") from error
        return self.line(timeout_s)

    def line(self, timeout_s: float) -> dict[str, Any]:
        """One answer; whoever does not come back in time is ended."""
        assert self.process.stdout
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.close()
                raise CandidateError("timeout", f"the GPU did not finish within {timeout_s:g} s")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise InfraError(f"the process with the clock ended: {self.said()}")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-600:].decode(errors="replace").strip() or "it said nothing"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def ask(number: int, order: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """An order to the process for this device, with the device to ourselves."""
    with hold_device(f"gpu{physical_device(number, VISIBLE)}"):
        if number not in TIMERS or TIMERS[number].process.poll() is not None:
            TIMERS[number] = Timer(number)
        found = TIMERS[number].ask(order, timeout_s)
    if "refused" in found:
        raise CandidateError(*found["refused"])
    if "user" in found:
        raise UserError(found["user"])
    if "infra" in found:
        raise InfraError(found["infra"])
    return found


def ceilings_of(number: int, device: Device) -> dict[str, float]:
    """As kept, else measured now."""
    name = f"{device.name} {device.driver}"
    found = ceilings.kept(name)
    if found is None:
        found = {key: float(value) for key, value in ask(number, {"ceilings": True}).items()}
        ceilings.keep(name, found)
    return found
