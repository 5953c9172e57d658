"""A process that has a backend loaded and copies itself for every candidate: a copy takes milliseconds, loading takes a second.

A copy cannot reach back: what a candidate does to the library it finds loaded is gone with its process, and so are processes it started.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from evokernel.core import isolated_python
from evokernel.core.errors import InfraError
from evokernel.verify import candidate_main

START_S, ANSWER_S, POLL_S = 60.0, 20.0, 0.002
MESSAGE_BYTES = 1 << 16
PR_SET_CHILD_SUBREAPER, ROUNDS = 36, 1000


class Zygote:
    """The judge's end."""

    def __init__(self, backend: type, settings: dict[str, Any], environment: dict[str, str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(START_S)
        try:
            self.process = subprocess.Popen(
                isolated_python.isolated_command(__name__, "serve", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        except OSError as error:
            raise InfraError(f"the process to copy cannot be started: {error}") from error
        finally:
            theirs.close()
        order = {"judge": os.getpid(), "backend": f"{backend.__module__}:{backend.__qualname__}", "settings": settings}
        if self.ask(order).get("ready") is not True:
            raise InfraError("the process to copy did not start: see the lines above")
        self.socket.settimeout(ANSWER_S)

    def ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """One message, one answer."""
        try:
            socket.send_fds(self.socket, [json.dumps(message).encode()], list(descriptors))
            found = self.socket.recv(MESSAGE_BYTES)
        except OSError as error:
            self.close()
            raise InfraError(f"the process to copy does not answer: {error}") from error
        if not found:
            self.close()
            raise InfraError("the process to copy is gone")
        answer: dict[str, Any] = json.loads(found)
        return answer

    def fork(self, stdin: int, errors: int, given: Sequence[int], scratch: Path, environment: dict[str, str]) -> int:
        """The number of a new copy, which reads its commands from `stdin` and was given the child's three descriptors."""
        answer = self.ask({"fork": [str(scratch), environment]}, (stdin, errors, *given))
        return int(answer["pid"])

    def status(self, pid: int) -> int | None:
        """How a copy ended, as in `Popen.returncode`; None while it lives."""
        answer = self.ask({"wait": pid})
        ended = answer["ended"]
        return None if ended is None else int(ended)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()
        self.process.kill()
        self.process.wait()


class Forked:
    """A copy, with what the judge needs of `subprocess.Popen`."""

    def __init__(self, zygote: Zygote, errors: IO[bytes], given: Sequence[int], scratch: Path, environment: dict[str, str]) -> None:
        self.zygote = zygote
        self.returncode: int | None = None
        theirs, ours = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(ours, "wb")
        try:
            self.pid = zygote.fork(theirs, errors.fileno(), given, scratch, environment)
        except InfraError:
            self.stdin.close()
            raise
        finally:
            os.close(theirs)

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                self.returncode = self.zygote.status(self.pid)
            except InfraError:  # it is gone, and its copies with it
                self.returncode = -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (ended := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("copy", timeout or 0.0)
            time.sleep(POLL_S)
        return ended

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)


def serve() -> None:
    """The other end: loads the backend, then copies itself whenever it is told to."""
    line = socket.socket(fileno=int(sys.argv[2]))
    order = json.loads(line.recv(MESSAGE_BYTES))
    candidate_main.die_with(order["judge"])
    adopt()
    module, _, name = order["backend"].partition(":")
    backend = getattr(importlib.import_module(module), name)(**order["settings"])
    backend.warm()
    line.send(json.dumps({"ready": len(os.listdir("/proc/self/task")) == 1}).encode())  # a copy has none of the threads
    own, copies = os.getpid(), set[int]()
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, MESSAGE_BYTES, 8)
        if not data:
            os._exit(0)
        message = json.loads(data)
        if "fork" in message:
            pid = os.fork()
            if not pid:
                line.close()
                become(backend, own, descriptors, *message["fork"])
            for descriptor in descriptors:
                os.close(descriptor)
            copies.add(pid)
            line.send(json.dumps({"pid": pid}).encode())
        else:
            found = ended(message["wait"])
            if found is not None:
                copies.discard(message["wait"])
                sweep(copies)
            line.send(json.dumps({"ended": found}).encode())


def become(backend: Any, parent: int, descriptors: list[int], scratch: str, environment: dict[str, str]) -> None:
    """Turns a copy into a child as `sandbox.Child` starts it."""
    try:
        os.setpgid(0, 0)
        stdin, errors, *given = descriptors
        nothing = os.open(os.devnull, os.O_WRONLY)
        for descriptor, place in ((stdin, 0), (nothing, 1), (errors, 2)):
            os.dup2(descriptor, place)
            os.close(descriptor)
        os.chdir(scratch)
        os.environ.clear()
        os.environ.update(environment)
        candidate_main.main(candidate_main.Given(parent, *given), backend)
    except OSError as error:  # before the candidate: the judge shows what is written here
        os.write(2, str(error).encode())
    finally:
        os._exit(0)


def ended(pid: int) -> int | None:
    """As in `Popen.returncode`; a process that is none of ours has ended."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if found else None


def adopt() -> None:
    """Whoever outlives a copy that started it, in whatever session, becomes a child of this process."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def sweep(copies: set[int]) -> None:
    """Ends all children that are no copies, and what they leave in turn."""
    for _ in range(ROUNDS):
        with suppress(OSError):  # some systems do not list children
            found = {int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()} - copies
            for pid in found:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if found:
                continue
        return
