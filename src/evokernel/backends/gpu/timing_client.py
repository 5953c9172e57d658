"""Client of the timing server: one server process per verifier and device, one request at a time per machine, restarted when it ends."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from contextlib import nullcontext
from typing import IO, Any

from evokernel.backends.gpu import ceilings
from evokernel.backends.gpu.devices import Device
from evokernel.core.devices import hold_device, physical_device
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.sandbox import isolated_python

START_S, ANSWER_S, REFERENCE_S = 120.0, 300.0, 600.0
"""Limits for the start of a server, for a kernel, and for the reference in a check, in seconds."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
COMPILE_VARIABLES = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""torch.compile otherwise starts a process per core, each with PyTorch, in every worker; an operator has one to three kernels."""
PROCESSES: dict[int, TimingProcess] = {}


class TimingProcess:
    """A timing server process."""

    def __init__(self, number: int) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            isolated_python.isolated_command("evokernel.backends.gpu.timing_server", "main", str(number)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=COMPILE_VARIABLES | os.environ,
            process_group=0,
        )
        self.buffer, self.is_ready = b"", False
        self.write_order({"warm_up": True})  # it loads PyTorch while this process does something else

    def wait_ready(self) -> None:
        """Waits until the server has loaded PyTorch."""
        for _ in range(0 if self.is_ready else 2):  # the greeting, and the answer to the first order
            answer = self.read_answer(START_S)
            if "infra" in answer:
                raise InfraError(answer["infra"])
        self.is_ready = True

    def send_request(self, order: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        self.wait_ready()
        self.write_order(order)
        return self.read_answer(timeout_s)

    def write_order(self, order: dict[str, Any]) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise InfraError(f"the timing server has ended: {error}; {self.stderr_tail()}") from error

    def read_answer(self, timeout_s: float) -> dict[str, Any]:
        """Reads one answer; kills the server on a time-out. While the reference runs, a time-out is not the kernel's fault."""
        phase = "kernel"
        while True:
            line = self.read_line(timeout_s if phase == "kernel" else REFERENCE_S)
            if line is None:
                self.close()
                if phase == "kernel":
                    raise CandidateError("timeout", f"the GPU did not finish within {timeout_s:g} s")
                raise InfraError(f"the reference did not finish on the GPU within {REFERENCE_S:g} s; choose --size laptop")
            answer: dict[str, Any] = json.loads(line)
            if "phase" not in answer:
                return answer
            phase = answer["phase"]

    def read_line(self, timeout_s: float) -> bytes | None:
        """Reads one line; returns None on a time-out."""
        assert self.process.stdout
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not select.select([self.process.stdout], [], [], remaining_s)[0]:
                return None
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise InfraError(f"the timing server ended: {self.stderr_tail()}")
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def stderr_tail(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-600:].decode(errors="replace").strip() or "it printed nothing"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def start_server(number: int) -> TimingProcess:
    """Returns the device's timing server; starts it if there is none or it has ended, and does not wait."""
    if number not in PROCESSES or PROCESSES[number].process.poll() is not None:
        PROCESSES[number] = TimingProcess(number)
    return PROCESSES[number]


def request_timing(number: int, order: dict[str, Any], timeout_s: float = ANSWER_S, lock: str | None = "") -> dict[str, Any]:
    """Sends a request to this process's timing server: with exclusive use of the device, with another lock, or with none (None)."""
    name = f"gpu{physical_device(number, VISIBLE)}"
    start_server(number).wait_ready()  # before the lock: other workers use the device while this server loads PyTorch
    with nullcontext() if lock is None else hold_device(f"{name}-{lock}" if lock else name):
        answer = start_server(number).send_request(order, timeout_s)
    if "refused" in answer:
        raise CandidateError(*answer["refused"])
    if "user" in answer:
        raise UserError(answer["user"])
    if "infra" in answer:
        raise InfraError(answer["infra"])
    return answer


def load_or_measure_ceilings(number: int, device: Device) -> dict[str, float]:
    """Loads the cached ceilings, or measures them now."""
    name = f"{device.name} {device.driver}"
    measured_ceilings = ceilings.load_ceilings(name)
    if measured_ceilings is None:
        measured_ceilings = {key: float(value) for key, value in request_timing(number, {"ceilings": True}).items()}
        ceilings.store_ceilings(name, measured_ceilings)
    return measured_ceilings
