"""Measures `evokernel serve`: its rate against the plain executor, and what happens when it is killed under load.

    python benchmarks/service.py rate [--kernels 24] [--rounds 2]
    python benchmarks/service.py kill [--requests 1000] [--hostile 300] [--clients 8]

`rate` verifies distinct kernels through a pool of warm workers and through the service, in turn, in one run. `kill` sends
honest kernels and the verifier's self-test of backend cpp, as two tenants, kills a worker and then the server, starts the server again, and
compares what the clients were promised with what the journal and the routes say. Requests repeat kernels; a tenant's identical requests
may be answered with one outcome, and the benchmark counts how many were.
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
from pathlib import Path
from typing import Any

import httpx

import evokernel.backends.cpp
from evokernel.app.selftest import HONEST, SelftestCase, load_cases, selftest_folder
from evokernel.app.verification_pool import VerificationPool
from evokernel.core.records import Outcome
from evokernel.service.tenants import add_token

SAMPLES = Path(evokernel.backends.cpp.__file__).parent / "samples"
SETTINGS = {"clock": "synthetic", "timeout_s": 20}
TENANTS = ("alice", "bob")
LEFT_OUT = ("timing",)
"""Self-test cases that only a real clock refuses."""


class ServedProcess:
    """The service in a process of its own, to be killed and started again."""

    def __init__(self, folder: Path, workers: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.workers = folder, workers
        self.tokens = {name: add_token(folder / "tokens.toml", name) for name in TENANTS}
        limits = "requests_per_minute = 100000\nmax_queued = 100\nmax_streams = 100\n"
        path = folder / "tokens.toml"
        path.write_text("".join(line + limits if line.startswith("[tenants.") else line for line in path.read_text().splitlines(True)))
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server and wait until it answers."""
        sets = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        options = ["--port", str(self.port), "--folder", str(self.folder / "jobs"), "--tokens", str(self.folder / "tokens.toml")]
        more = ["--workers", str(self.workers), "--tasks", str(SAMPLES / "task.py"), "--max-queued", "150"]
        process = subprocess.Popen([sys.executable, "-m", "evokernel.cli.main", "serve", *options, *more, *sets], stdout=subprocess.DEVNULL)
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


def make_requests(count: int, hostile: int, distinct: int) -> list[tuple[dict[str, Any], SelftestCase | None]]:
    """Requests in random order: hostile self-test cases and honest kernels, at most `distinct` of each kind, as often as needed."""
    cases = [case for case in load_cases("cpp", selftest_folder("cpp")) if case.size == "laptop" and not case.settings]
    attacks = [case for case in cases if case.category not in (HONEST, *LEFT_OUT)]
    honest: list[tuple[dict[str, Any], SelftestCase | None]] = [(case_body(case), case) for case in cases if case.category == HONEST]
    for name in ("good", "good-branchless"):
        text = (SAMPLES / name / "kernel.cpp").read_text()
        honest.append(({"task": "samples/task", "backend": "cpp", "kernel": text}, None))
    attacks, honest = random.Random(0).sample(attacks, min(distinct, len(attacks))), honest[-distinct:]
    chosen = [(case_body(case), case) for case in (attacks[number % len(attacks)] for number in range(hostile))]
    chosen += [honest[number % len(honest)] for number in range(count - hostile)]
    random.Random(0).shuffle(chosen)
    return chosen


def case_body(case: SelftestCase) -> dict[str, Any]:
    """The request for a case."""
    return {"task": case.task, "backend": "cpp", "kernel": case.path.read_text(errors="replace"), "timeout_s": case.timeout_s}


class LoadTest:
    """Clients that send requests until each is accepted, and remember what they were promised."""

    def __init__(self, server: ServedProcess, requests: Sequence[tuple[dict[str, Any], SelftestCase | None]]) -> None:
        self.server, self.requests = server, requests
        self.waiting = list(enumerate(requests))[::-1]
        self.lock = threading.Lock()
        self.accepted: dict[int, tuple[str, str]] = {}
        """Tenant and id by the number of the request."""
        self.statuses: Counter[str] = Counter()
        self.errors: list[str] = []

    def work(self, tenant: str) -> None:
        """Send requests until none is left."""
        with self.server.client(tenant) as client:
            while True:
                with self.lock:
                    if not self.waiting:
                        return
                    number, (body, _) = self.waiting.pop()
                self.send(client, tenant, number, body)

    def send(self, client: httpx.Client, tenant: str, number: int, body: dict[str, Any]) -> None:
        """Send one request until it is accepted; the key makes repetition safe when an answer was lost."""
        while True:
            try:
                answer = client.post("/v1/verifications", json=body, headers={"idempotency-key": f"request-{number}"})
            except httpx.TransportError:
                self.statuses["connection lost"] += 1
                time.sleep(0.5)
                continue
            self.statuses[str(answer.status_code)] += 1
            if answer.status_code in (429, 503):
                time.sleep(float(answer.headers["retry-after"]))
                continue
            if answer.status_code in (200, 202):
                self.accepted[number] = (tenant, answer.json()["id"])
            else:
                self.errors.append(f"{answer.status_code} {answer.text[:200]}")
            return

    def disturb(self) -> None:
        """Kill a worker when 40 % are accepted, the server when half are."""
        self.wait_for_share(0.4)
        while not self.server.kill_worker():
            time.sleep(0.1)
        self.statuses["workers killed"] += 1
        self.wait_for_share(0.5)
        self.server.kill_and_restart()
        self.statuses["servers killed"] += 1

    def wait_for_share(self, share: float) -> None:
        """Wait until this share of the requests is accepted."""
        while len(self.accepted) < share * len(self.requests):
            time.sleep(0.1)

    def read_results(self) -> dict[int, dict[str, Any]]:
        """Wait for every accepted verification."""
        clients = {name: self.server.client(name) for name in TENANTS}
        results = {}
        for number, (tenant, id) in sorted(self.accepted.items()):
            verification: dict[str, Any] = {"state": ""}
            while verification["state"] not in ("done", "failed", "cancelled"):
                verification = clients[tenant].get(f"/v1/verifications/{id}", params={"wait_s": 60}).json()
            results[number] = verification
            other = next(name for name in TENANTS if name != tenant)
            assert clients[other].get(f"/v1/verifications/{id}").status_code == 404
        return results


def count_unexpected(load: LoadTest, results: dict[int, dict[str, Any]]) -> dict[str, int]:
    """How many hostile and honest kernels had an outcome that their authors did not expect."""
    counts = Counter({"hostile accepted as correct": 0, "honest refused": 0, "hostile refused for another reason": 0})
    for number, verification in results.items():
        case = load.requests[number][1]
        if verification["result"] is None:
            continue
        outcome = Outcome.model_validate(verification["result"]["outcome"])
        is_hostile = case is not None and case.category != HONEST
        if is_hostile and outcome.feasible:
            counts["hostile accepted as correct"] += 1
        elif is_hostile and case and not case.is_expected_outcome(outcome):
            counts["hostile refused for another reason"] += 1
        elif not is_hostile and not outcome.feasible:
            counts["honest refused"] += 1
    return dict(counts)


def measure_kills(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Send requests while a worker and the server are killed; compare promises with the journal."""
    server = ServedProcess(folder, args.workers)
    load = LoadTest(server, make_requests(args.requests, args.hostile, args.distinct))
    start = time.monotonic()
    run_threads([load.disturb, *([lambda name=TENANTS[n % 2]: load.work(name) for n in range(args.clients)])])
    results = load.read_results()
    seconds = time.monotonic() - start
    exit_code = server.close()
    with sqlite3.connect(folder / "jobs" / "jobs.db") as journal:
        rows = dict(journal.execute("SELECT id, state FROM jobs"))
        restarted = journal.execute("SELECT count(*) FROM jobs WHERE starts > 1").fetchone()[0]
    promised = {id for _, id in load.accepted.values()}
    return {
        "requests": args.requests,
        "hostile": args.hostile,
        "distinct kernels": len({body["kernel"] for body, _ in load.requests}),
        "clients": args.clients,
        "seconds": round(seconds),
        "accepted": len(load.accepted),
        "not accepted": load.errors[:3],
        "answered once": sum(verification["state"] == "done" for verification in results.values()),
        "without outcome": [verification["error"] for verification in results.values() if verification["state"] != "done"][:3],
        "in the journal, not promised": len(rows.keys() - promised),
        "promised, not in the journal": len(promised - rows.keys()),
        "two requests with one id": len(load.accepted) - len(promised),
        "started again after the kill": restarted,
        "reused outcomes": sum(verification["reused_from"] is not None for verification in results.values()),
        "unexpected": count_unexpected(load, results),
        "responses": dict(load.statuses),
        "exit code after SIGTERM": exit_code,
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("what", choices=["rate", "kill"])
    options.add_argument("--kernels", type=int, default=24)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--hostile", type=int, default=300)
    options.add_argument("--distinct", type=int, default=1000, help="different kernels of each kind at most")
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--workers", type=int, default=2)
    args = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="evokernel-service-") as folder:
        measure = measure_rate if args.what == "rate" else measure_kills
        print(json.dumps(measure(args, Path(folder)), indent=2))


if __name__ == "__main__":
    main()
