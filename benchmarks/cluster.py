"""Verifications on a Ray cluster of several nodes on this machine: the effect of lost nodes, and the gain of a second node.

    python benchmarks/cluster.py [--jobs 200] [--scaling 40]

The jobs are small C++ kernels. In the first part, three nodes verify one job at a time each. After a third of the outcomes, one node is
killed with SIGKILL; after two thirds, another is stopped with SIGSTOP and continued at the end. In the second part, the same jobs go to one
node and to two, in turn: once verified, where the nodes share the cores of one machine, and once with a backend that only waits, which
shows the cost of placing jobs.
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

from ray_nodes import Cluster, is_outcome_of, make_jobs, start_cluster

from evokernel.core.records import Job, Outcome
from evokernel.executors.ray import RayExecutor


class WarningCounter(logging.Handler):
    """Counts the executor's warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def wait_for_outcomes(futures: list[Future[Outcome]], count: int) -> None:
    """Wait until this number of futures is done."""
    while sum(future.done() for future in futures) < count:
        time.sleep(0.05)


def verify_with_lost_nodes(nodes: Cluster, work: list[Job]) -> None:
    """Verify all jobs while one node is killed and another is stopped."""
    warnings = WarningCounter()
    logging.getLogger("evokernel.executors.ray").addHandler(warnings)
    executor = RayExecutor(address=nodes.address, heartbeat_timeout_s=10)
    accepted_replies: list[Outcome] = []
    parse_answer = executor.parse_answer

    def count_answer(*arguments: Any) -> Outcome:
        accepted_replies.append(parse_answer(*arguments))
        return accepted_replies[-1]

    executor.parse_answer = count_answer  # type: ignore[method-assign]
    start_s = time.perf_counter()
    futures = [executor.submit(job) for job in work]
    wait_for_outcomes(futures, len(work) // 3)
    nodes.kill("one")
    print(f"{time.perf_counter() - start_s:6.1f} s  killed a node after {sum(future.done() for future in futures)} outcomes", flush=True)
    wait_for_outcomes(futures, 2 * len(work) // 3)
    nodes.kill("two", signal.SIGSTOP)
    stop_s = time.perf_counter()
    print(f"{stop_s - start_s:6.1f} s  stopped a node after {sum(future.done() for future in futures)} outcomes", flush=True)
    outcomes = [future.result() for future in futures]
    print(f"{time.perf_counter() - start_s:6.1f} s  all {len(outcomes)} outcomes received", flush=True)
    nodes.kill("two", signal.SIGCONT)
    time.sleep(10)
    correct = sum(is_outcome_of(n, outcome) for n, outcome in enumerate(outcomes))
    print(f"{correct} of {len(work)} outcomes correct; {len(accepted_replies)} replies accepted, also after the stopped node continued")
    print(f"jobs moved to another node: {len(warnings.lines)}")
    for line in warnings.lines:
        print(f"    {line[:160]}")
    executor.close()


def measure_throughput(nodes: Cluster, work: list[Job], names: list[str]) -> float:
    """Return the outcomes per minute when only these nodes get jobs."""
    executor = RayExecutor(address=nodes.address, resources=[f"{'-'.join(names)}=0.001"])
    try:
        for future in [executor.submit(job) for job in work[: 2 * len(names)]]:
            future.result()  # afterwards the workers are started
        start_s = time.perf_counter()
        for future in [executor.submit(job) for job in work]:
            future.result()
        return len(work) / (time.perf_counter() - start_s) * 60
    finally:
        executor.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--scaling", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if options.jobs:
            with start_cluster() as nodes:
                for name in ("one", "two", "three"):
                    nodes.add(name, evokernel_backend_cpp=1)
                verify_with_lost_nodes(nodes, make_jobs(options.jobs, Path(folder)))
        if options.scaling:
            with start_cluster() as nodes:
                offers = {"evokernel_backend_cpp": 1, "evokernel_backend_waiting:WaitingBackend": 1, "left_right": 1}
                nodes.add("left", **offers, left=1)
                nodes.add("right", **offers)
                work = make_jobs(options.scaling, Path(folder))
                compare_node_counts("verified", nodes, work, options.rounds)
                compare_node_counts(
                    "waited for", nodes, [job.model_copy(update={"backend": "waiting:WaitingBackend"}) for job in work], options.rounds
                )


def compare_node_counts(label: str, nodes: Cluster, work: list[Job], rounds: int) -> None:
    """Compare one node with two, in turn."""
    ratios = []
    for _ in range(rounds):
        one, two = measure_throughput(nodes, work, ["left"]), measure_throughput(nodes, work, ["left", "right"])
        ratios.append(two / one)
        print(f"{label}: one node {one:.0f} per minute, two {two:.0f}, load {os.getloadavg()[0]:.1f}", flush=True)
    print(
        f"{label}: two nodes do {statistics.median(ratios):.2f} times the work of one ({min(ratios):.2f} to {max(ratios):.2f})", flush=True
    )


if __name__ == "__main__":
    main()
