"""A Ray cluster of several nodes on one machine, each in processes of its own that can be killed or stopped; and jobs to give to it."""

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
from evokernel.tasks.loader import load

START_S = 120
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # read when Ray is imported: what it tells of dead nodes is long
TASK = """
import torch
from torch import nn
N = 64
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(N)]
"""
RIGHT = """// job {n}
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {{
  for (int64_t i = 0; i < x_shape[0]; ++i) out[i] = x[i] * 2;
}}
"""


class Cluster:
    """A head that judges nothing unless it is told to, and nodes that offer what they are told to."""

    def __init__(self, cores: int = 0, **resources: float) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ek-ray-"))  # short: names of sockets are
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        here = ["--head", f"--port={self.port}", f"--temp-dir={self.home}", "--include-dashboard=false", f"--num-cpus={cores}"]
        self.start("head", *here, f"--resources={offers(resources)}")
        self.wait("head", 1)

    def start(self, name: str, *words: str) -> None:
        program = str(Path(sys.executable).parent / "ray")
        command = [program, "start", *words, "--block", "--disable-usage-stats", "--object-store-memory=100000000"]
        source = str(Path(str(evokernel.__file__)).parents[1])
        paths = os.pathsep.join(filter(None, [source, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        variables = {**os.environ, "PYTHONPATH": paths, "RAY_enable_metrics_collection": "0"}
        with (self.home / f"{name}.log").open("wb") as log:
            self.nodes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=variables, start_new_session=True)

    def add(self, name: str, cores: int = 1, **resources: float) -> None:
        """A node, once it is up (two that start at once get in each other's way)."""
        import ray

        before = len(ray.nodes())
        self.start(name, f"--address={self.address}", f"--num-cpus={cores}", f"--resources={offers(resources)}")
        self.wait(name, before + 1)

    def wait(self, name: str, count: int) -> None:
        """Until there are so many nodes, dead ones among them."""
        import ray

        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with suppress(ConnectionError, RuntimeError):
                ray.init(address=self.address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)
                if len(ray.nodes()) >= count:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"{name} does not start: {(self.home / f'{name}.log').read_text()[-1000:]}")

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to everything a node is made of."""
        top = self.nodes[name].pid
        for pid in [top, *below(top)]:
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
def cluster(cores: int = 0, **resources: float) -> Iterator[Cluster]:
    """Gone afterwards, whatever happens."""
    made = Cluster(cores, **resources)
    try:
        yield made
    finally:
        made.close()


def offers(resources: dict[str, float]) -> str:
    """Labels are written with dashes, which names in Python cannot have."""
    return json.dumps({key.replace("_", "-"): value for key, value in resources.items()})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def below(pid: int) -> list[int]:
    """Every descendant of a process."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def jobs(count: int, folder: Path, timing_s: float = 0.05) -> list[Job]:
    """Small ones: every second a right kernel, the others with an error that names the job, so that no verdict can be another's."""
    path = folder / "doubled.py"
    path.write_text(TASK)
    task = load(str(path))[0]
    texts = [RIGHT.format(n=n) if n % 2 == 0 else f"#error job {n} ends here\n" for n in range(count)]
    made = [Candidate(backend="cpp", files={"kernel.cpp": text}) for text in texts]
    return [Job(backend="cpp", task=task, candidate=one, seed=n, timing_s=timing_s, protocol="paper") for n, one in enumerate(made)]


def is_of(n: int, outcome: object) -> bool:
    """Whether a verdict is that of the job with this number."""
    failure = getattr(outcome, "failure", None)
    if n % 2 == 0:
        return bool(getattr(outcome, "feasible", False))
    return failure is not None and f"job {n} ends here" in failure.detail
