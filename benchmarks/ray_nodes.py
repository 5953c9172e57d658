"""A Ray cluster of several nodes on one machine whose processes can be killed or stopped, and jobs for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import evokernel
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks

START_S = 120
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # Ray reads it on import; its messages about dead nodes are long
TASK_SOURCE = """
import torch
from torch import nn
N = 64
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(N)]
"""
CORRECT_KERNEL = """// job {n}
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {{
  for (int64_t i = 0; i < x_shape[0]; ++i) out[i] = x[i] * 2;
}}
"""


class Cluster:
    """A head, which verifies only if it gets cores, and nodes with the given cores and resources."""

    def __init__(self, cores: int = 0, **resources: float) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ek-ray-"))  # short, because names of sockets are limited
        self.port = find_free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        head_arguments = ["--head", f"--port={self.port}", f"--temp-dir={self.home}", "--include-dashboard=false", f"--num-cpus={cores}"]
        self.start("head", *head_arguments, f"--resources={format_resources(resources)}")
        self.wait("head", 1)

    def start(self, name: str, *arguments: str) -> None:
        program = str(Path(sys.executable).parent / "ray")
        command = [program, "start", *arguments, "--block", "--disable-usage-stats", "--object-store-memory=100000000"]
        source = str(Path(str(evokernel.__file__)).parents[1])
        paths = os.pathsep.join(filter(None, [source, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": paths, "RAY_enable_metrics_collection": "0"}
        with (self.home / f"{name}.log").open("wb") as log:
            self.nodes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)

    def add(self, name: str, cores: int = 1, **resources: float) -> None:
        """Start a node and wait until it is up, because two nodes cannot start at the same time."""
        import ray

        before = len(ray.nodes())
        self.start(name, f"--address={self.address}", f"--num-cpus={cores}", f"--resources={format_resources(resources)}")
        self.wait(name, before + 1)

    def wait(self, name: str, count: int) -> None:
        """Wait until the cluster has this number of nodes, including dead ones."""
        import ray

        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with suppress(ConnectionError, RuntimeError):
                ray.init(address=self.address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
                if len(ray.nodes()) >= count:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"{name} did not start: {(self.home / f'{name}.log').read_text()[-1000:]}")

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to all processes of a node."""
        top_pid = self.nodes[name].pid
        for pid in [top_pid, *descendant_pids(top_pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        import ray

        ray.shutdown()
        for name in self.nodes:
            self.kill(name)
        for process in self.nodes.values():
            process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def start_cluster(cores: int = 0, **resources: float) -> Iterator[Cluster]:
    """Start a cluster and remove it afterwards, also after an error."""
    nodes = Cluster(cores, **resources)
    try:
        yield nodes
    finally:
        nodes.close()


def format_resources(resources: dict[str, float]) -> str:
    """Format resources for Ray, whose names have dashes where Python's keywords have underscores."""
    return json.dumps({key.replace("_", "-"): value for key, value in resources.items()})


def find_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def descendant_pids(pid: int) -> list[int]:
    """Return the ids of all descendants of a process."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    descendants, pending = [], [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        descendants += children
        pending += children
    return descendants


def make_jobs(count: int, folder: Path, timing_s: float = 0.05) -> list[Job]:
    """Return small jobs: every second kernel is correct, the others have an error with the job number, so outcomes cannot be confused."""
    path = folder / "doubled.py"
    path.write_text(TASK_SOURCE)
    task = load_tasks(str(path))[0]
    texts = [CORRECT_KERNEL.format(n=n) if n % 2 == 0 else f"#error job {n} ends here\n" for n in range(count)]
    candidates = [Candidate(backend="cpp", files={"kernel.cpp": text}) for text in texts]
    return [Job(backend="cpp", task=task, candidate=one, seed=n, timing_s=timing_s, protocol="paper") for n, one in enumerate(candidates)]


def is_outcome_of(n: int, outcome: object) -> bool:
    """Whether an outcome belongs to the job with this number."""
    failure = getattr(outcome, "failure", None)
    if n % 2 == 0:
        return bool(getattr(outcome, "feasible", False))
    return failure is not None and f"job {n} ends here" in failure.detail
