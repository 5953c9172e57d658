"""The service with workers on a Ray cluster: the same routes, the same outcomes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")

from service_servers import ServerProcess, read_stream, sample_body, wait_for

from benchmarks.ray_nodes import Cluster, descendant_pids, start_cluster
from evokernel.service.journal import JobJournal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a node in /proc")


@pytest.mark.slow
def test_kernels_are_verified_on_a_cluster(tmp_path):
    with start_cluster(cores=1, evokernel_backend_cpp=1) as nodes:
        server = ServerProcess(tmp_path / "jobs", "--executor", "ray", "--set", f'executor.address="{nodes.address}"')
        try:
            server.start()
            answers = {
                name: server.client.post("/v1/verifications", params={"wait_s": 300}, json=sample_body(name), timeout=320).json()
                for name in ("good", "mismatch-formula")
            }
            assert {name: (one["state"], one["result"]["reason"]) for name, one in answers.items()} == {
                "good": ("done", None),
                "mismatch-formula": ("done", "mismatch"),
            }
            assert read_stream(server.client, answers["good"]["id"])[-1] == ("end", {"state": "done", "error": None})
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
        finally:
            server.stop()


@pytest.mark.slow
def test_a_killed_process_of_ray_costs_no_verification(tmp_path):
    """Ray's process dies while it verifies: the service answers every accepted verification once."""
    expected = {"good": None, "mismatch-formula": "mismatch", "compile_error-syntax": "compile_error"}
    with start_cluster(cores=1, evokernel_backend_cpp=1) as nodes:
        server = ServerProcess(tmp_path / "jobs", "--executor", "ray", "--set", f'executor.address="{nodes.address}"')
        try:
            server.start()
            ids = {name: server.client.post("/v1/verifications", json=sample_body(name)).json()["id"] for name in expected}
            [worker] = wait_for(lambda: find_workers(nodes), 120)
            assert server.client.get(f"/v1/verifications/{ids['good']}").json()["state"] == "running"
            os.kill(find_parent(worker), signal.SIGKILL)
            for name, reason in expected.items():
                answer = server.client.get(f"/v1/verifications/{ids[name]}", params={"wait_s": 300}, timeout=320).json()
                assert (answer["state"], answer["error"]) == ("done", None)
                assert answer["result"]["reason"] == reason
                assert [event for event, _ in read_stream(server.client, ids[name])].count("end") == 1
            assert worker not in find_workers(nodes), "another process verified"
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
        finally:
            server.stop()
    journal = JobJournal(server.folder)
    assert {job.id: (job.state, job.starts) for job in journal.select("1", ())} == dict.fromkeys(ids.values(), ("done", 1))
    journal.close()


def find_workers(nodes: Cluster) -> list[int]:
    """The verification workers on the first node."""
    pids = descendant_pids(nodes.nodes["head"].pid)
    return [pid for pid in pids if b"evokernel.executors.worker" in read_process(pid, "cmdline")]


def find_parent(pid: int) -> int:
    return int(read_process(pid, "stat").rpartition(b")")[2].split()[1])


def read_process(pid: int, name: str) -> bytes:
    """A file of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
