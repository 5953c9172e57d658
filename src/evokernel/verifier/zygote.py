"""A zygote: a process that has a backend loaded and forks itself for every candidate, in milliseconds instead of a second.

A fork cannot change the zygote: changes that a candidate makes to a loaded library end with its process, and so do processes it started.
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

from evokernel.core.errors import InfraError
from evokernel.sandbox import isolated_python
from evokernel.verifier import candidate_main

START_TIMEOUT_S, REPLY_TIMEOUT_S, POLL_S = 60.0, 20.0, 0.002
MAX_MESSAGE_BYTES = 1 << 16
PR_SET_CHILD_SUBREAPER, MAX_KILL_ROUNDS = 36, 1000


class Zygote:
    """The verifier's connection to a zygote process. It loads the backend while the verifier does something else."""

    def __init__(self, backend: type, settings: dict[str, Any], environment: dict[str, str]) -> None:
        self.socket, zygote_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(START_TIMEOUT_S)
        try:
            self.process = subprocess.Popen(
                isolated_python.isolated_command(__name__, "serve", str(zygote_end.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=(zygote_end.fileno(),),
                process_group=0,
            )
        except OSError as error:
            raise InfraError(f"the zygote process cannot be started: {error}") from error
        finally:
            zygote_end.close()
        setup = {"verifier_pid": os.getpid(), "backend": f"{backend.__module__}:{backend.__qualname__}", "settings": settings}
        self.is_ready = False
        self.send(setup)

    def wait_ready(self) -> None:
        """Wait until the process has loaded the backend."""
        if self.is_ready:
            return
        if self.receive().get("ready") is not True:
            raise InfraError("the zygote process did not start: its error output is above")
        self.is_ready = True
        self.socket.settimeout(REPLY_TIMEOUT_S)

    def request(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send one message and return its reply."""
        self.wait_ready()
        self.send(message, descriptors)
        return self.receive()

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message."""
        try:
            socket.send_fds(self.socket, [json.dumps(message).encode()], list(descriptors))
        except OSError as error:
            self.close()
            raise InfraError(f"the zygote process does not reply: {error}") from error

    def receive(self) -> dict[str, Any]:
        """Return the next reply."""
        try:
            data = self.socket.recv(MAX_MESSAGE_BYTES)
        except OSError as error:
            self.close()
            raise InfraError(f"the zygote process does not reply: {error}") from error
        if not data:
            self.close()
            raise InfraError("the zygote process has exited")
        reply: dict[str, Any] = json.loads(data)
        return reply

    def fork_copy(self, stdin: int, stderr_fd: int, descriptors: Sequence[int], scratch: Path, environment: dict[str, str]) -> int:
        """Fork a candidate process that reads commands from `stdin` and inherits three descriptors; return its process id."""
        reply = self.request({"fork": [str(scratch), environment]}, (stdin, stderr_fd, *descriptors))
        return int(reply["pid"])

    def get_exit_code(self, pid: int) -> int | None:
        """Return the exit code of a fork as in `Popen.returncode`, or None while it runs."""
        reply = self.request({"wait": pid})
        exit_code = reply["exit_code"]
        return None if exit_code is None else int(exit_code)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.close()
        self.process.kill()
        self.process.wait()


class ForkedProcess:
    """A forked candidate process, with the part of the interface of `subprocess.Popen` that the verifier uses."""

    def __init__(
        self, zygote: Zygote, stderr_file: IO[bytes], descriptors: Sequence[int], scratch: Path, environment: dict[str, str]
    ) -> None:
        self.zygote = zygote
        self.returncode: int | None = None
        read_end, write_end = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(write_end, "wb")
        try:
            self.pid = zygote.fork_copy(read_end, stderr_file.fileno(), descriptors, scratch, environment)
        except InfraError:
            self.stdin.close()
            raise
        finally:
            os.close(read_end)

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                self.returncode = self.zygote.get_exit_code(self.pid)
            except InfraError:  # the zygote has died, and its forks with it
                self.returncode = -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (exit_code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("fork", timeout or 0.0)
            time.sleep(POLL_S)
        return exit_code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)


def serve() -> None:
    """Main program of the zygote: load the backend, then fork whenever the verifier asks."""
    connection = socket.socket(fileno=int(sys.argv[2]))
    setup = json.loads(connection.recv(MAX_MESSAGE_BYTES))
    candidate_main.exit_with_parent(setup["verifier_pid"])
    become_subreaper()
    module, _, name = setup["backend"].partition(":")
    backend = getattr(importlib.import_module(module), name)(**setup["settings"])
    backend.load_libraries()
    connection.send(json.dumps({"ready": len(os.listdir("/proc/self/task")) == 1}).encode())  # a fork has none of the threads
    own_pid, copies = os.getpid(), set[int]()
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 8)
        if not data:
            os._exit(0)
        message = json.loads(data)
        if "fork" in message:
            pid = os.fork()
            if not pid:
                connection.close()
                become_candidate_process(backend, own_pid, descriptors, *message["fork"])
            for descriptor in descriptors:
                os.close(descriptor)
            copies.add(pid)
            connection.send(json.dumps({"pid": pid}).encode())
        else:
            exit_code = poll_exit_code(message["wait"])
            if exit_code is not None:
                copies.discard(message["wait"])
                kill_orphans(copies)
            connection.send(json.dumps({"exit_code": exit_code}).encode())


def become_candidate_process(backend: Any, parent: int, descriptors: list[int], scratch: str, environment: dict[str, str]) -> None:
    """Turn a fork into a candidate process as `CandidateProcess.start_process` starts one."""
    try:
        os.setpgid(0, 0)
        stdin, stderr_fd, *passed_fds = descriptors
        null_fd = os.open(os.devnull, os.O_WRONLY)
        for descriptor, target_fd in ((stdin, 0), (null_fd, 1), (stderr_fd, 2)):
            os.dup2(descriptor, target_fd)
            os.close(descriptor)
        os.chdir(scratch)
        os.environ.clear()
        os.environ.update(environment)
        candidate_main.main(candidate_main.ProcessSetup(parent, *passed_fds), backend)
    except OSError as error:  # before the candidate is loaded: the verifier shows this text
        os.write(2, str(error).encode())
    finally:
        os._exit(0)


def poll_exit_code(pid: int) -> int | None:
    """Return the exit code as in `Popen.returncode`, or None while the process runs; a process that is not a child counts as ended."""
    try:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if ended_pid else None


def become_subreaper() -> None:
    """Adopt processes that outlive the fork that started them, whatever session they are in."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def kill_orphans(copies: set[int]) -> None:
    """Kill all children that are not forks of this zygote, and the processes they leave behind."""
    for _ in range(MAX_KILL_ROUNDS):
        with suppress(OSError):  # some systems do not list children
            orphans = {int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()} - copies
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if orphans:
                continue
        return
