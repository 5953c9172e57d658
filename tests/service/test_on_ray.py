"""The service with workers on a Ray cluster: the same routes, the same outcomes."""

from __future__ import annotations

import signal
import sys

import pytest

pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")

from service_servers import ServerProcess, read_stream, sample_body

from benchmarks.ray_nodes import start_cluster

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
