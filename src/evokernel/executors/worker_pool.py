"""Worker processes, local or remote: each gets a job as a line of JSON and sends one reply; a pool retries failed jobs."""

from __future__ import annotations

import json
import logging
import os
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import IO

from pydantic import ValidationError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import GateListener
from evokernel.core.records import GateResult, Job, Outcome

log = logging.getLogger(__name__)
REPLY_GRACE_S = 120  # a worker limits every step to the time-out, in simulation to four times as long by the clock; later it hangs
MAX_REPLY_BYTES = 16_000_000
LOCAL_COMMAND = (sys.executable, "-P", "-m", "evokernel.executors.worker")  # -P: a file in the working folder hides no library
MAX_QUOTED_CHARS = 120
GATE_KEY = "gate"
GATE_PREFIX = f'{{"{GATE_KEY}": '.encode()
"""How a line begins that is not the reply but a message about a gate."""


class WorkerBug(InfraError):
    """A bug in the worker itself: another attempt would fail in the same way."""


class MalformedReply(InfraError):
    """A reply that cannot be parsed: later output of the same worker cannot be trusted, either."""


class WorkerProcess:
    """One worker process, started at first use and again after it died.

    If persistent, it serves job after job, one line each; otherwise it is started for every job, and its complete output is the reply.
    """

    def __init__(
        self,
        command: Sequence[str] = LOCAL_COMMAND,
        label: str = "the verification worker",
        timeout_s: float = 0,
        is_persistent: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`variables` are added to the environment of the process."""
        self.command, self.label, self.timeout_s, self.is_persistent = command, label, timeout_s, is_persistent
        self.variables = dict(variables or {})
        self.is_local = command is LOCAL_COMMAND
        self.process: subprocess.Popen[bytes] | None = None
        self.stderr_file: IO[bytes] | None = None

    def request_outcome(self, job: Job, on_gate: GateListener | None = None) -> str:
        """Return the worker's reply to a job; raise InfraError if it died, hangs or cannot be started."""
        if self.process is None or self.process.poll() is not None or has_unread_output(self.process):
            self.close()
            self.process = self.start()
        process = self.process
        timeout_s = self.timeout_s or 8 * job.simulation_timeout_s + REPLY_GRACE_S
        try:
            on_line = partial(report_gate, job, on_gate) if on_gate and job.reports_gates else None
            reply = exchange_messages(process, job.model_dump_json().encode() + b"\n", timeout_s, self.is_persistent, on_line)
        except TimeoutError as error:
            self.close()
            raise InfraError(f"{self.label} did not reply within {timeout_s:.0f} s{self.describe_stderr()}") from error
        except EOFError as error:
            code = wait_exit_code(process)
            self.close()
            if code == 1 and self.is_local:
                raise WorkerBug("the verifier itself failed; please report the traceback above") from error
            raise InfraError(f"{self.label} died ({describe_exit(code)}){self.describe_stderr()}") from error
        if not self.is_persistent:
            code = wait_exit_code(process)
            self.close()
            if code:
                raise InfraError(f"{self.label} failed ({describe_exit(code)}){self.describe_stderr()}")
        return reply.decode(errors="replace")

    def start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", **self.variables}
        if not self.is_local:
            self.stderr_file = tempfile.TemporaryFile()  # noqa: SIM115
        pipe = subprocess.PIPE
        try:
            # A separate process group: Ctrl-C in the terminal reaches only the run, which lets its workers finish.
            return subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=self.stderr_file, env=environment, process_group=0)
        except OSError as error:
            raise InfraError(f"{self.label} could not be started: {error.strerror or error}") from error

    def describe_stderr(self) -> str:
        """Return the end of the worker's stderr, unless the worker shares the run's own."""
        if self.stderr_file is None:
            return ""
        size = self.stderr_file.seek(0, os.SEEK_END)
        self.stderr_file.seek(max(0, size - 2000))
        text = " ".join(self.stderr_file.read().decode(errors="replace").split())
        return f"; its stderr: {text[-500:]}" if text else ""

    def close(self) -> None:
        """Kill the process and its process group."""
        if self.process:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(OSError):  # unsent data has no reader any more
                    assert pipe is not None
                    pipe.close()
            self.process = None


def report_gate(job: Job, on_gate: GateListener, line: bytes) -> None:
    """Pass a message about a gate on; a malformed one is ignored, because only the reply counts."""
    with suppress(ValueError, KeyError, ValidationError):
        content = json.loads(line)
        on_gate(job, str(content[GATE_KEY]), GateResult.model_validate(content["result"]) if content["result"] else None)


def exchange_messages(
    process: subprocess.Popen[bytes], data: bytes, timeout_s: float, is_persistent: bool, on_line: Callable[[bytes], None] | None = None
) -> bytes:
    """Write a job while reading the reply: one line, or everything until the end; `on_line` takes lines about gates before the reply.

    Raise TimeoutError, or EOFError if there is no reply.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    os.set_blocking(process.stdin.fileno(), False)
    deadline, reply = time.monotonic() + timeout_s, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while not (is_persistent and reply.endswith(b"\n")):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or len(reply) > MAX_REPLY_BYTES:
                raise TimeoutError
            if process.stdin in (key.fileobj for key, _ in ready):
                data = write_available(process.stdin, data)
                if not data:
                    selector.unregister(process.stdin)
                    if not is_persistent:
                        process.stdin.close()
            if process.stdout in (key.fileobj for key, _ in ready):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk and (is_persistent or not reply):
                    raise EOFError
                if not chunk:
                    break
                reply += chunk
                while on_line and reply.startswith(GATE_PREFIX) and b"\n" in reply:
                    line, _, rest = bytes(reply).partition(b"\n")
                    on_line(line)
                    reply = bytearray(rest)
    return bytes(reply)


def has_unread_output(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process wrote output that no job requested."""
    with selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(0))


def write_available(pipe: IO[bytes], data: bytes) -> bytes:
    """Write as much as the pipe takes and return the rest; return nothing if the reader is gone, whose reply or exit explains why."""
    try:
        return data[os.write(pipe.fileno(), data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""


def parse_reply(reply: str) -> Outcome:
    """Return the outcome in a worker's reply, or raise the error that it reports."""
    try:
        content = json.loads(reply)
        if not isinstance(content, dict):
            raise ValueError
        if "user_error" in content:
            raise UserError(str(content["user_error"]))
        if "worker_bug" in content:
            raise WorkerBug(str(content["worker_bug"]))
        if "infra_error" in content:
            raise InfraError(str(content["infra_error"]))
        return Outcome.model_validate(content.get("outcome", content))
    except (ValueError, ValidationError) as error:
        text = " ".join(reply.split())
        quoted = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"
        raise MalformedReply(f"the reply is not an outcome: {quoted!r}") from error


def parse_remote_reply(reply: str) -> Outcome:
    """Parse a reply from another machine. If that machine has no device for a kernel, the kernel is not to blame."""
    outcome = parse_reply(reply)
    if outcome.failure and outcome.failure.reason == "not_run":
        raise InfraError(f"the verifying machine has no device: {outcome.failure.detail}")
    return outcome


def wait_exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of a process whose pipe is closed, or None if it still runs."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(10)
    return None


def describe_exit(code: int | None) -> str:
    """Describe an exit code."""
    if code is None:
        return "its output ended, but it still runs"
    return f"exit code {code}" if code >= 0 else f"exit code {code}, killed by signal {-code}"


class WorkerPool:
    """A job whose worker died is given to a new one, up to `max_attempts` times; `parse_reply` converts a reply to an outcome."""

    def __init__(self, workers: Sequence[WorkerProcess], max_attempts: int, parse_reply: Callable[[str], Outcome]) -> None:
        self.workers, self.max_attempts, self.parse_reply = list(workers), max_attempts, parse_reply
        self.on_gate: GateListener | None = None
        self.idle_workers: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()  # the most recently used: it is already started
        for worker in self.workers:
            self.idle_workers.put(worker)
        self.pool = ThreadPoolExecutor(len(self.workers))

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def start_worker(self) -> None:
        """Start the worker that gets the next job, so that it is ready when the job comes."""
        with suppress(queue.Empty):
            worker = self.idle_workers.get_nowait()
            try:
                if worker.is_persistent and worker.process is None:
                    worker.process = worker.start()
            finally:
                self.idle_workers.put(worker)

    def verify(self, job: Job) -> Outcome:
        """Verify a job in the next idle worker."""
        worker = self.idle_workers.get()
        try:
            for remaining in reversed(range(self.max_attempts)):
                try:
                    return self.parse_reply(worker.request_outcome(job, self.on_gate))
                except InfraError as error:
                    if isinstance(error, MalformedReply):
                        worker.close()
                    if not remaining or isinstance(error, WorkerBug):
                        raise
                    log.warning("%s: %s; retrying", job.task.id, error)
            raise InfraError("all attempts to verify the job failed")
        finally:
            self.idle_workers.put(worker)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()
