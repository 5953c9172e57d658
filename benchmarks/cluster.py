"""Verifications on a Ray cluster of several nodes on this machine: what is lost with its nodes, and what a second node gains.

    python benchmarks/cluster.py [--jobs 200] [--scaling 40]

Small C++ kernels, judged for real. In the first part three nodes judge one at a time each; when a third of the verdicts is in, one node is
killed with SIGKILL, when two thirds are, another is stopped with SIGSTOP, and set going again at the end. In the second part the same jobs
go to one node and to two, in turn: judged, for which nodes on one machine share its cores, and with a backend that only waits, which shows
what placing jobs costs.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import statistics
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ray_nodes import Cluster, cluster, is_of, jobs

from evokernel.core.records import Job, Outcome
from evokernel.executors.ray import Ray


class Told(logging.Handler):
    """Counts what the executor says of trouble."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def wait(futures: list[Future[Outcome]], count: int) -> None:
    while sum(future.done() for future in futures) < count:
        time.sleep(0.05)


def lose_nodes(nodes: Cluster, work: list[Job]) -> None:
    """All verdicts, with a node killed and another stopped on the way."""
    told = Told()
    logging.getLogger("evokernel.executors.ray").addHandler(told)
    executor = Ray(address=nodes.address, silence_s=10)
    taken: list[Outcome] = []
    answered = executor.answered

    def counted(*words: Any) -> Outcome:
        taken.append(answered(*words))
        return taken[-1]

    executor.answered = counted  # type: ignore[method-assign]
    begun = time.perf_counter()
    futures = [executor.submit(job) for job in work]
    wait(futures, len(work) // 3)
    nodes.kill("one")
    print(f"{time.perf_counter() - begun:6.1f} s  killed a node, {sum(future.done() for future in futures)} verdicts in", flush=True)
    wait(futures, 2 * len(work) // 3)
    nodes.kill("two", signal.SIGSTOP)
    stopped = time.perf_counter()
    print(f"{stopped - begun:6.1f} s  stopped a node, {sum(future.done() for future in futures)} verdicts in", flush=True)
    found = [future.result() for future in futures]
    print(f"{time.perf_counter() - begun:6.1f} s  all {len(found)} in", flush=True)
    nodes.kill("two", signal.SIGCONT)
    time.sleep(10)
    right = sum(is_of(n, outcome) for n, outcome in enumerate(found))
    print(f"{right} of {len(work)} as they must be; {len(taken)} answers taken, also after the stopped node went on")
    print(f"jobs given to another node: {len(told.lines)}")
    for line in told.lines:
        print(f"    {line[:160]}")
    executor.close()


def measure(nodes: Cluster, work: list[Job], names: list[str]) -> float:
    """Verdicts per minute with jobs for these nodes only."""
    executor = Ray(address=nodes.address, resources=[f"{'-'.join(names)}=0.001"])
    try:
        for future in [executor.submit(job) for job in work[: 2 * len(names)]]:
            future.result()  # judges are warm afterwards
        begun = time.perf_counter()
        for future in [executor.submit(job) for job in work]:
            future.result()
        return len(work) / (time.perf_counter() - begun) * 60
    finally:
        executor.close()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=200)
    options.add_argument("--scaling", type=int, default=40)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if given.jobs:
            with cluster() as nodes:
                for name in ("one", "two", "three"):
                    nodes.add(name, evokernel_backend_cpp=1)
                lose_nodes(nodes, jobs(given.jobs, Path(folder)))
        if given.scaling:
            with cluster() as nodes:
                offers = {"evokernel_backend_cpp": 1, "evokernel_backend_waiting:Waiting": 1, "left_right": 1}
                nodes.add("left", **offers, left=1)
                nodes.add("right", **offers)
                work = jobs(given.scaling, Path(folder))
                compare("judged", nodes, work, given.rounds)
                compare("waited for", nodes, [job.model_copy(update={"backend": "waiting:Waiting"}) for job in work], given.rounds)


def compare(what: str, nodes: Cluster, work: list[Job], rounds: int) -> None:
    """One node against two, in turn."""
    ratios = []
    for _ in range(rounds):
        one, two = measure(nodes, work, ["left"]), measure(nodes, work, ["left", "right"])
        ratios.append(two / one)
        print(f"{what}: one node {one:.0f} a minute, two {two:.0f}, load {os.getloadavg()[0]:.1f}", flush=True)
    print(
        f"{what}: two nodes do {statistics.median(ratios):.2f} times the work of one ({min(ratios):.2f} to {max(ratios):.2f})", flush=True
    )


if __name__ == "__main__":
    main()
