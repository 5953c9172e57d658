"""A process that judges, whatever it takes to reach it: it is given a job as a line of JSON and answers with one."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from pydantic import ValidationError

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Job, Outcome

GRACE_S = 120  # a judge bounds every step by the job's time-out; one silent for this much longer is stuck itself
MOST_BYTES = 16_000_000
OWN = (sys.executable, "-P", "-m", "evokernel.executors.worker")  # -P: a file in the working folder hides no library
QUOTED = 120


class WorkerBug(InfraError):
    """A bug of ours in the judge: asking again would give the same."""


class MalformedReply(InfraError):
    """An answer that is none: what comes next from there cannot be told from it."""


class WorkerProcess:
    """One worker process, started when first needed and again after it died.

    With `keeps` it serves job after job, a line each; without, it is started for every job, and what it prints until it ends is the answer.
    """

    def __init__(
        self, words: Sequence[str] = OWN, called: str = "the verification worker", timeout_s: float = 0, keeps: bool = True
    ) -> None:
        self.words, self.called, self.timeout_s, self.keeps = words, called, timeout_s, keeps
        self.is_ours = words is OWN
        self.process: subprocess.Popen[bytes] | None = None
        self.complaints: IO[bytes] | None = None

    def ask(self, job: Job) -> str:
        """The worker's answer; InfraError when it died, hangs or cannot be started."""
        if self.process is None or self.process.poll() is not None or has_more(self.process):
            self.close()
            self.process = self.start()
        process = self.process
        patience_s = self.timeout_s or 4 * job.timeout_s + GRACE_S
        try:
            answer = exchange(process, job.model_dump_json().encode() + b"\n", patience_s, self.keeps)
        except TimeoutError as error:
            self.close()
            raise InfraError(f"{self.called} gave no answer for {patience_s:.0f} s{self.said()}") from error
        except EOFError as error:
            code = ended(process)
            self.close()
            if code == 1 and self.is_ours:
                raise WorkerBug("the judge itself failed: please report the traceback above") from error
            raise InfraError(f"{self.called} died ({exit_words(code)}){self.said()}") from error
        if not self.keeps:
            code = ended(process)
            self.close()
            if code:
                raise InfraError(f"{self.called} failed ({exit_words(code)}){self.said()}")
        return answer.decode(errors="replace")

    def start(self) -> subprocess.Popen[bytes]:
        quiet = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        if not self.is_ours:
            self.complaints = tempfile.TemporaryFile()  # noqa: SIM115
        pipe = subprocess.PIPE
        try:
            # A group of its own: Ctrl-C in the terminal is for the run, which lets its judges finish.
            return subprocess.Popen(self.words, stdin=pipe, stdout=pipe, stderr=self.complaints, env=quiet, process_group=0)
        except OSError as error:
            raise InfraError(f"{self.called} could not be started: {error.strerror or error}") from error

    def said(self) -> str:
        """The end of what it wrote to standard error, where that is not the run's own."""
        if self.complaints is None:
            return ""
        size = self.complaints.seek(0, os.SEEK_END)
        self.complaints.seek(max(0, size - 2000))
        text = " ".join(self.complaints.read().decode(errors="replace").split())
        return f"; it said: {text[-500:]}" if text else ""

    def close(self) -> None:
        """Ends it and whatever it started."""
        if self.process:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(OSError):  # what was still buffered has nobody to go to
                    assert pipe is not None
                    pipe.close()
            self.process = None


def exchange(process: subprocess.Popen[bytes], data: bytes, patience_s: float, keeps: bool) -> bytes:
    """Writes all of a job while it reads the answer: a line, or everything until the end. Raises TimeoutError, or EOFError without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    os.set_blocking(process.stdin.fileno(), False)
    deadline, found = time.monotonic() + patience_s, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while not (keeps and found.endswith(b"\n")):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or len(found) > MOST_BYTES:
                raise TimeoutError
            if process.stdin in (key.fileobj for key, _ in ready):
                data = written(process.stdin, data)
                if not data:
                    selector.unregister(process.stdin)
                    if not keeps:
                        process.stdin.close()
            if process.stdout in (key.fileobj for key, _ in ready):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk and (keeps or not found):
                    raise EOFError
                if not chunk:
                    break
                found += chunk
    return bytes(found)


def has_more(process: subprocess.Popen[bytes]) -> bool:
    """Whether it said something that nobody asked for."""
    with selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(0))


def written(pipe: IO[bytes], data: bytes) -> bytes:
    """What is left to write; nothing where nobody reads any more, whose answer or end then tells why."""
    try:
        return data[os.write(pipe.fileno(), data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return b""


def outcome(answer: str) -> Outcome:
    """What a worker's answer says: an Outcome, alone or named as one, or whose fault it is that there is none."""
    try:
        found = json.loads(answer)
        if not isinstance(found, dict):
            raise ValueError
        if "user" in found:
            raise UserError(str(found["user"]))
        if "broken" in found:
            raise WorkerBug(str(found["broken"]))
        if "infra" in found:
            raise InfraError(str(found["infra"]))
        return Outcome.model_validate(found.get("outcome", found))
    except (ValueError, ValidationError) as error:
        text = " ".join(answer.split())
        shown = text if len(text) <= QUOTED else text[:QUOTED] + "…"
        raise MalformedReply(f"the answer is no outcome: {shown!r}") from error


def found_there(answer: str) -> Outcome:
    """The same from another machine. That it has no device to run a kernel on says nothing about the kernel."""
    judged = outcome(answer)
    if judged.failure and judged.failure.reason == "not_run":
        raise InfraError(f"no device where it was judged: {judged.failure.detail}")
    return judged


def ended(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process whose pipe is closed; None when it lives on."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(10)
    return None


def exit_words(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "its output ended, though it lives on"
    return f"exit code {code}" if code >= 0 else f"exit code {code}, killed by signal {-code}"
