"""A server in a thread with workers that the test holds, and a server in a process of its own with real workers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

import evokernel.backends.cpp
from evokernel.app.verification_pool import VerificationPool
from evokernel.core.errors import InfraError
from evokernel.core.records import GateResult, Job, Opportunity, Outcome, Profile
from evokernel.core.sockets import open_socket
from evokernel.service.server import build_application
from evokernel.service.tenants import Tenant, TokenFile, hash_token, write_tenants
from evokernel.service.verification_queue import QueueSettings, VerificationQueue

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
TASK = "samples/task"
PASSED = Outcome(
    gates=(GateResult(gate="screen", passed=True, seconds=0.1), GateResult(gate="time", passed=True, seconds=0.2)),
    samples_us=(10.0, 10.0),
    baseline_us={"eager": (20.0, 20.0)},
    clock="synthetic",
    profile=Profile(
        bottleneck="memory", summary="moves too much", opportunities=(Opportunity(cause="excess_traffic", gain_us=4.0, line=1),)
    ),
)
FAILED = Outcome(gates=(GateResult(gate="screen", passed=False, reason="forbidden", detail="no"),))


class HeldExecutor:
    """Completes every job at once, or keeps it until the test completes it. One worker begins the first job that is kept. A kernel
    that says FAIL fails, one that says BROKEN has no worker."""

    def __init__(self) -> None:
        self.on_gate: Any = None
        self.is_holding = False
        self.held: list[tuple[Job, Future[Outcome]]] = []
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self.jobs.append(job)
        self.held.append((job, future))
        if self.is_holding and len(self.held) == 1:
            self.begin(job, future)
        if not self.is_holding:
            threading.Thread(target=self.complete_all).start()
        return future

    def begin(self, job: Job, future: Future[Outcome]) -> bool:
        """Report the first gate of a job, as a worker that takes it; False if it was cancelled."""
        if future.running():
            return True
        if not future.set_running_or_notify_cancel():
            return False
        self.on_gate(job, PASSED.gates[0].gate, None)
        return True

    def complete_all(self) -> None:
        while self.held:
            job, future = self.held.pop(0)
            if not self.begin(job, future):
                continue
            text = "".join(job.candidate.files.values())
            self.on_gate(job, PASSED.gates[0].gate, PASSED.gates[0])
            if "BROKEN" in text:
                future.set_exception(InfraError("no worker\nanswers"))
            else:
                future.set_result(FAILED if "FAIL" in text else PASSED)

    def close(self) -> None:
        self.held.clear()


class Server:
    """A running server: its queue, its workers, and clients for its tenants."""

    def __init__(self, queue: VerificationQueue, executor: HeldExecutor, url: str) -> None:
        self.queue, self.executor, self.url = queue, executor, url
        self.clients: dict[str, Any] = {}

    def client(self, token: str = "") -> Any:
        if token not in self.clients:
            self.clients[token] = httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {token}"} if token else {}, timeout=30)
        return self.clients[token]


@contextmanager
def serve_in_thread(folder: Path, tenants: dict[str, Tenant] | None = None, slots: int = 2, **settings: Any) -> Iterator[Server]:
    executor = HeldExecutor()
    pool = VerificationPool(1, {"clock": "synthetic"})
    pool.executor.close()
    pool.executor = executor  # type: ignore[assignment]
    executor.on_gate = pool.report_gate
    queue = VerificationQueue(pool, QueueSettings(folder / "jobs", task_specs=(str(SAMPLES / "task.py"),), **settings), slots)
    tokens = None
    if tenants:
        write_tenants(folder / "tokens.toml", tenants)
        tokens = TokenFile(folder / "tokens.toml")
    listener = open_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    app = build_application(queue, tokens, "127.0.0.1", port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
    queue.start()
    thread.start()
    running = Server(queue, executor, f"http://127.0.0.1:{port}")
    try:
        yield running
    finally:
        executor.is_holding = False
        executor.complete_all()
        for client in running.clients.values():
            client.close()
        server.should_exit = True
        queue.close()
        thread.join()


def tenant(name: str, **limits: Any) -> Tenant:
    """A tenant whose token is its name."""
    return Tenant(name=name, token_sha256=(hash_token(name),), **{"requests_per_minute": 60_000, **limits})


def request_body(kernel: str = "int x;", **fields: Any) -> dict[str, Any]:
    return {"task": TASK, "backend": "cpp", "kernel": kernel, **fields}


def sample_body(name: str, **fields: Any) -> dict[str, Any]:
    """The request for one of the backend's samples."""
    path = SAMPLES / name / "kernel.cpp"
    return request_body(path.read_text(), label=name, **fields)


def wait_for(condition: Callable[[], Any], timeout_s: float = 60) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    return value


class ServerProcess:
    """`evokernel serve` in a process of its own, to be killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.options = folder, options
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "evokernel.cli.main", "serve", "--port", str(self.port), "--folder", str(self.folder)]
        more = ["--tasks", str(SAMPLES / "task.py"), "--workers", "1", "--set", "clock=synthetic", "--set", "timeout_s=20"]
        self.process = subprocess.Popen([*command, *more, *self.options], env={**os.environ, "OMP_NUM_THREADS": "1"})
        wait_for(self.is_ready, 120)

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the server ended"
        try:
            return bool(self.client.get("/healthz").status_code == 200)
        except httpx.TransportError:
            return False

    def worker_pids(self) -> list[int]:
        assert self.process is not None
        text = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [int(line.split()[0]) for line in text.splitlines() if "evokernel.executors.worker" in line]

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.client.close()


def read_stream(client: Any, id: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """All events of a verification."""
    events = []
    with client.stream("GET", f"/v1/verifications/{id}/events", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                events.append((name, json.loads(line.removeprefix("data: "))))
    return events
