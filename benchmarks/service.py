"""Measures `evokernel serve`: its rate against the plain executor, and what happens when it is killed under load.

    python benchmarks/service.py rate [--kernels 24] [--rounds 2]
    python benchmarks/service.py kill [--requests 1000] [--hostile 300] [--clients 8] [--no-reuse]

`rate` verifies distinct kernels through a pool of warm workers and through the service, in turn, in one run. `kill` sends mixed requests as
two tenants: verifications of honest kernels and of the verifier's self-test of backend cpp, batches, event streams, reads, searches,
cancels, and malformed and oversized bodies. It kills a worker and then the server, starts the server again, and compares what the clients
were promised with what the journal and the routes say. Requests repeat kernels; a tenant's identical requests are answered with one outcome
unless `--no-reuse` is given, and the benchmark counts how many were.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import evokernel.backends.cpp
from evokernel.app.selftest import HONEST, SelftestCase, load_cases, selftest_folder
from evokernel.app.verification_pool import VerificationPool
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Outcome
from evokernel.memory.bank import Bank
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.service.tenants import add_token

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
SETTINGS = {"clock": "synthetic", "timeout_s": 20}
TENANTS = ("alice", "bob")
LEFT_OUT = ("timing",)
"""Self-test cases that only a real clock refuses."""


class ServedProcess:
    """The service in a process of its own, to be killed and started again."""

    def __init__(self, folder: Path, workers: int, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.workers, self.options = folder, workers, options
        self.tokens = {name: add_token(folder / "tokens.toml", name) for name in TENANTS}
        limits = "requests_per_minute = 100000\nmax_queued = 100\nmax_streams = 100\n"
        path = folder / "tokens.toml"
        path.write_text("".join(line + limits if line.startswith("[tenants.") else line for line in path.read_text().splitlines(True)))
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server and wait until it answers."""
        sets = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        options = ["--port", str(self.port), "--folder", str(self.folder / "jobs"), "--tokens", str(self.folder / "tokens.toml")]
        more = ["--workers", str(self.workers), "--tasks", str(SAMPLES / "task.py"), "--max-queued", "60"]
        command = [sys.executable, "-m", "evokernel.cli.main", "serve", *options, *more, *self.options, *sets]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status_code == 200:
                    return process
            time.sleep(0.2)
        raise SystemExit("the server does not start")

    def client(self, tenant: str) -> httpx.Client:
        """A client of a tenant."""
        headers = {"authorization": f"Bearer {self.tokens[tenant]}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=120, verify=False)  # reads no certificates

    def kill_worker(self) -> bool:
        """Kill one worker with SIGKILL; False if none runs."""
        text = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        pids = [int(line.split()[0]) for line in text.splitlines() if "evokernel.executors.worker" in line]
        if pids:
            os.kill(pids[0], signal.SIGKILL)
        return bool(pids)

    def kill_and_restart(self) -> None:
        """Kill the server with SIGKILL and start it again on the same journal."""
        self.process.kill()
        self.process.wait()
        self.process = self.start()

    def close(self) -> int:
        """Stop the server with SIGTERM and return its exit code."""
        self.process.terminate()
        return self.process.wait(300)


def distinct_kernels(count: int, label: str) -> Iterator[dict[str, str]]:
    """Copies of an honest kernel that differ in a comment."""
    text = (SAMPLES / "good" / "kernel.cpp").read_text()
    return ({"kernel.cpp": f"{text}// {label} {number}\n"} for number in range(count))


def time_plain(pool: VerificationPool, kernels: Sequence[dict[str, str]]) -> float:
    """Seconds that the plain pool takes for all kernels."""
    start = time.monotonic()
    futures = [pool.submit(pool.plan(files, SAMPLES / "task.py", backend="cpp"), ignore_cache=True) for files in kernels]
    assert all(future.result().feasible for future in futures)
    return time.monotonic() - start


def time_service(server: ServedProcess, kernels: Sequence[dict[str, str]], clients: int) -> float:
    """Seconds that the service takes for all kernels, sent by several clients that wait for each result."""
    waiting = list(kernels)
    lock = threading.Lock()
    results: list[bool] = []

    def work() -> None:
        with server.client("alice") as client:
            while True:
                with lock:
                    if not waiting:
                        return
                    files = waiting.pop()
                body = {"task": "samples/task", "backend": "cpp", "files": files}
                answer = client.post("/v1/verifications", params={"wait_s": 120}, json=body).json()
                results.append(answer["result"]["feasible"] and answer["reused_from"] is None)

    start = time.monotonic()
    run_threads([work] * clients)
    assert results == [True] * len(kernels)
    return time.monotonic() - start


def run_threads(functions: Sequence[Any]) -> None:
    """Run functions in threads and wait for all."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_rate(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Verifications a minute of both, measured in turn."""
    server = ServedProcess(folder, args.workers)
    plain_s, service_s = [], []
    with VerificationPool(args.workers, SETTINGS) as pool:
        time_plain(pool, list(distinct_kernels(args.workers, "warm")))
        time_service(server, list(distinct_kernels(args.workers, "warm")), args.clients)
        for number in range(args.rounds):
            kernels = list(distinct_kernels(args.kernels, f"round {number}"))
            plain_s.append(time_plain(pool, kernels))
            service_s.append(time_service(server, kernels, args.clients))
    server.close()
    count = args.kernels * args.rounds
    return {
        "kernels": count,
        "plain_per_minute": round(60 * count / sum(plain_s), 1),
        "service_per_minute": round(60 * count / sum(service_s), 1),
        "ratio": round(sum(plain_s) / sum(service_s), 3),
        "ratio_by_round": [round(plain / served, 3) for plain, served in zip(plain_s, service_s)],
    }


class MixedRequest(NamedTuple):
    """One request of the mix: what it is, and its kernels with the self-test cases that they come from."""

    kind: str
    bodies: tuple[dict[str, Any], ...] = ()
    cases: tuple[SelftestCase | None, ...] = ()


SHARES = {"batch": 0.04, "events": 0.12, "task": 0.1, "memory": 0.08, "cancel": 0.06, "malformed": 0.06, "oversized": 0.03, "foreign": 0.03}
"""Share of each kind among all requests; the others are single verifications."""
BATCH_SIZE = 4
STATUSES: dict[str, tuple[int, ...]] = {
    "verification": (200, 202),
    "batch": (202,),
    "events": (200,),
    "task": (200,),
    "memory": (200,),
    "cancel": (200, 409),
    "malformed": (400, 415, 422),
    "oversized": (413,),
    "foreign": (404,),
}
"""The right answers. 429 and 503 ask to come back."""
MALFORMED = (
    b"{",
    b"[]",
    b'{"task": "starter/softmax"}',
    b'{"task": "starter/nothing", "backend": "cpp", "kernel": "int x;"}',
    b'{"task": "starter/softmax", "backend": "cpp", "kernel": 3}',
    b'{"task": "starter/softmax", "backend": "cpp", "kernel": "int x;", "unknown": 1}',
    b"\xff\xfe",
)
SIZES = (300 << 10, 5 << 20)
"""Bytes of an oversized kernel, and of an oversized body."""


def make_requests(count: int, hostile: int, reuse: bool) -> list[MixedRequest]:
    """Requests in random order: `hostile` single verifications of self-test cases, honest ones, and the other kinds."""
    cases = [case for case in load_cases("cpp", selftest_folder("cpp")) if case.size == "laptop" and not case.settings]
    attacks = [(case_body(case), case) for case in cases if case.category not in (HONEST, *LEFT_OUT)]
    honest: list[tuple[dict[str, Any], SelftestCase | None]] = [(case_body(case), case) for case in cases if case.category == HONEST]
    for name in ("good", "good-branchless"):
        honest.append(({"task": "samples/task", "backend": "cpp", "kernel": (SAMPLES / name / "kernel.cpp").read_text()}, None))
    draw = random.Random(0)
    draw.shuffle(attacks)
    next_attack, next_honest = cycle(attacks), cycle(honest)

    def verify(kind: str, kernels: Sequence[tuple[dict[str, Any], SelftestCase | None]]) -> MixedRequest:
        return MixedRequest(kind, tuple(body | {"reuse_outcome": reuse} for body, _ in kernels), tuple(case for _, case in kernels))

    requests = [verify("verification", [next(next_attack)]) for _ in range(hostile)]
    for kind, share in SHARES.items():
        for _ in range(round(share * count)):
            half = BATCH_SIZE // 2
            kernels = [*islice(next_attack, half), *islice(next_honest, half)] if kind == "batch" else []
            requests.append(verify(kind, kernels))
    requests += [verify("verification", [next(next_honest)]) for _ in range(count - len(requests))]
    draw.shuffle(requests)
    return requests


def case_body(case: SelftestCase) -> dict[str, Any]:
    """The request for a case."""
    return {"task": case.task, "backend": "cpp", "kernel": case.path.read_text(errors="replace"), "timeout_s": case.timeout_s}


class Promise(NamedTuple):
    """A verification that the server accepted."""

    tenant: str
    id: str
    case: SelftestCase | None


class LoadTest:
    """Clients that send requests until each has its answer, and remember what they were promised."""

    def __init__(self, server: ServedProcess, requests: Sequence[MixedRequest]) -> None:
        self.server, self.requests = server, requests
        self.waiting = list(enumerate(requests))[::-1]
        self.lock = threading.Lock()
        self.answered = 0
        self.promises: list[Promise] = []
        self.cancelled: set[str] = set()
        self.statuses: Counter[str] = Counter()
        self.errors: list[str] = []

    def work(self, tenant: str) -> None:
        """Send requests until none is left."""
        with self.server.client(tenant) as client:
            while True:
                with self.lock:
                    if not self.waiting:
                        return
                    number, request = self.waiting.pop()
                self.send(client, tenant, number, request)
                with self.lock:
                    self.answered += 1

    def send(self, client: httpx.Client, tenant: str, number: int, request: MixedRequest) -> None:
        """Send one request until it is answered; the key makes repetition safe when an answer was lost."""
        target = self.choose_target(tenant, number, request.kind)
        while True:
            try:
                answer = send_once(client, number, request, target)
            except httpx.TransportError:
                self.count(request.kind, "connection lost")
                time.sleep(0.5)
                continue
            self.count(request.kind, str(answer.status_code))
            if answer.status_code in (429, 503):
                time.sleep(float(answer.headers["retry-after"]))
                continue
            if request.kind == "events" and answer.status_code == 200 and "event: end" not in answer.text:
                continue  # the server stopped
            self.note(tenant, request, target, answer)
            return

    def choose_target(self, tenant: str, number: int, kind: str) -> str:
        """An accepted verification: for most requests one of this tenant, for `foreign` one of another; "0" if there is none yet."""
        with self.lock:
            ids = [promise.id for promise in self.promises if (promise.tenant == tenant) != (kind == "foreign")]
        newest = ids[-BATCH_SIZE:] if kind == "cancel" else ids
        return random.Random(number).choice(newest) if newest else "0"

    def count(self, kind: str, status: str) -> None:
        """Count an answer."""
        with self.lock:
            self.statuses[f"{kind} {status}"] += 1

    def note(self, tenant: str, request: MixedRequest, target: str, answer: httpx.Response) -> None:
        """Remember what the server promised, and an answer that is wrong."""
        is_right = answer.status_code in STATUSES[request.kind] or (target == "0" and answer.status_code == 404)
        with self.lock:
            if not is_right:
                self.errors.append(f"{request.kind}: {answer.status_code} {answer.text[:200]}")
            elif request.bodies:
                ids = answer.json()["verifications"] if request.kind == "batch" else [answer.json()["id"]]
                self.promises += [Promise(tenant, id, case) for id, case in zip(ids, request.cases, strict=True)]
            elif request.kind == "cancel" and answer.status_code == 200:
                self.cancelled.add(target)

    def disturb(self) -> None:
        """Kill a worker when 40 % are answered, the server when half are."""
        self.wait_for_share(0.4)
        while not self.server.kill_worker():
            time.sleep(0.1)
        self.statuses["workers killed"] += 1
        self.wait_for_share(0.5)
        self.server.kill_and_restart()
        self.statuses["servers killed"] += 1

    def wait_for_share(self, share: float) -> None:
        """Wait until this share of the requests is answered."""
        while self.answered < share * len(self.requests):
            time.sleep(0.1)

    def read_results(self) -> dict[str, dict[str, Any]]:
        """Wait for every accepted verification; by id."""
        clients = {name: self.server.client(name) for name in TENANTS}
        results = {}
        for promise in self.promises:
            verification: dict[str, Any] = {"state": ""}
            while verification["state"] not in ("done", "failed", "cancelled"):
                verification = clients[promise.tenant].get(f"/v1/verifications/{promise.id}", params={"wait_s": 60}).json()
            results[promise.id] = verification
            other = next(name for name in TENANTS if name != promise.tenant)
            assert clients[other].get(f"/v1/verifications/{promise.id}").status_code == 404
        return results


def send_once(client: httpx.Client, number: int, request: MixedRequest, target: str) -> httpx.Response:
    """Send one request of the mix."""
    headers, json_type = {"idempotency-key": f"request-{number}"}, {"content-type": "application/json"}
    match request.kind:
        case "verification":
            return client.post("/v1/verifications", json=request.bodies[0], headers=headers)
        case "batch":
            return client.post("/v1/batches", json={"verifications": request.bodies}, headers=headers)
        case "events":
            return client.get(f"/v1/verifications/{target}/events", timeout=None)
        case "task":
            return client.get("/v1/tasks/starter/softmax", params={"backend": "cpp"}) if number % 2 else client.get("/v1/tasks")
        case "memory":
            return client.get("/v1/memory/search", params={"q": f"vectorise loop {number}", "limit": 5})
        case "cancel":
            return client.delete(f"/v1/verifications/{target}")
        case "malformed":
            return client.post("/v1/verifications", content=MALFORMED[number % len(MALFORMED)], headers=json_type)
        case "oversized":
            body = {"task": "starter/softmax", "backend": "cpp", "kernel": "/" * SIZES[number % len(SIZES)]}
            return client.post("/v1/verifications", json=body)
        case _:
            return client.get(f"/v1/verifications/{target}")


def describe_unexpected(load: LoadTest, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Hostile and honest kernels whose outcome their authors did not expect, with the reason."""
    accepted, other_reason, refused = [], [], []
    for promise in load.promises:
        case, verification = promise.case, results[promise.id]
        if verification["result"] is None:
            continue
        outcome = Outcome.model_validate(verification["result"]["outcome"])
        name = f"{case.name}: {verification['result']['reason']}" if case else str(verification["result"]["reason"])
        is_hostile = case is not None and case.category != HONEST
        if is_hostile and outcome.feasible:
            accepted.append(name)
        elif is_hostile and case and not case.is_expected_outcome(outcome):
            other_reason.append(name)
        elif not is_hostile and not outcome.feasible:
            refused.append(name)
    return {
        "hostile accepted as correct": accepted,
        "hostile refused for another reason": dict(Counter(other_reason)),
        "honest refused": dict(Counter(refused)),
    }


def measure_kills(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Send requests while a worker and the server are killed; compare promises with the journal."""
    with Bank.open(folder / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="benchmark") as bank:
        bank.add(load_seed_cards("cpp"))
    server = ServedProcess(folder, args.workers, "--memory", str(folder / "bank.db"))
    load = LoadTest(server, make_requests(args.requests, args.hostile, not args.no_reuse))
    loads, start = [os.getloadavg()[1]], time.monotonic()
    run_threads([load.disturb, *([lambda name=TENANTS[n % 2]: load.work(name) for n in range(args.clients)])])
    results = load.read_results()
    seconds = time.monotonic() - start
    loads.append(os.getloadavg()[1])
    exit_code = server.close()
    with sqlite3.connect(folder / "jobs" / "jobs.db") as journal:
        rows = dict(journal.execute("SELECT id, state FROM jobs"))
        restarted = journal.execute("SELECT count(*) FROM jobs WHERE starts > 1").fetchone()[0]
    promised = {promise.id for promise in load.promises}
    states = Counter(verification["state"] for verification in results.values())
    hostile = {promise.case.name for promise in load.promises if promise.case and promise.case.category != HONEST}
    return {
        "requests": dict(Counter(request.kind for request in load.requests)),
        "clients": args.clients,
        "workers": args.workers,
        "seconds": round(seconds),
        "load (5 min), before and after": [round(value, 1) for value in loads],
        "wrong answers": load.errors[:5],
        "verifications": len(load.promises),
        "of hostile kernels": sum(promise.case is not None and promise.case.category != HONEST for promise in load.promises),
        "different hostile kernels": len(hostile),
        "reused outcomes": sum(verification["reused_from"] is not None for verification in results.values()),
        "ended": dict(states),
        "without outcome": [verification["error"] for verification in results.values() if verification["state"] == "failed"][:3],
        "cancelled, and not so in the end": sum(results[id]["state"] != "cancelled" for id in load.cancelled),
        "in the journal, not promised": len(rows.keys() - promised),
        "promised, not in the journal": len(promised - rows.keys()),
        "two promises with one id": len(load.promises) - len(promised),
        "started again after the kill": restarted,
        "unexpected": describe_unexpected(load, results),
        "answers": dict(sorted(load.statuses.items())),
        "exit code after SIGTERM": exit_code,
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("what", choices=["rate", "kill"])
    options.add_argument("--kernels", type=int, default=24)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--hostile", type=int, default=300)
    options.add_argument("--no-reuse", action="store_true", help="verify every kernel, also one that its tenant has sent before")
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--workers", type=int, default=2)
    args = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="evokernel-service-") as folder:
        measure = measure_rate if args.what == "rate" else measure_kills
        print(json.dumps(measure(args, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
