"""A cluster on one machine whose nodes are killed and stopped: every job gets exactly one outcome, and no candidate is blamed."""

import json
import signal
import subprocess
import sys
import time

import pytest
from time_limits import HANG_S, wait_until

ray = pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")

from benchmarks.ray_nodes import find_free_port, is_outcome_of, make_jobs, start_cluster  # noqa: E402
from evokernel.core.errors import InfraError, UserError  # noqa: E402
from evokernel.executors import ray as executor_ray  # noqa: E402
from evokernel.executors.ray import RayExecutor, parse_amounts  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a node in /proc")


@pytest.fixture(scope="module")
def nodes():
    with start_cluster(cores=1, evokernel_backend_cpp=1) as executor:
        yield executor


@pytest.fixture
def executor(nodes):
    executor = RayExecutor(address=nodes.address, heartbeat_timeout_s=20, placement_timeout_s=HANG_S)
    yield executor
    executor.close()


@pytest.mark.slow
def test_run_on_a_cluster_completes(nodes, tmp_path):
    arguments = ["run", "--backend", "cpp", "--tasks", "starter/gelu", "--budget", "2", "--set", "executor=ray", "--json", "--fresh"]
    settings = [
        "--set",
        f'executor.address="{nodes.address}"',
        "--set",
        "protocol=paper",
        "--set",
        "timing_s=0.05",
        "--out",
        str(tmp_path / "r"),
    ]
    process = subprocess.run(
        [sys.executable, "-m", "evokernel.cli.main", *arguments, *settings], capture_output=True, text=True, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    json.loads(process.stdout)
    attempts = [json.loads(line) for line in (tmp_path / "r" / "attempts.jsonl").read_text().splitlines()]
    assert len(attempts) == 2
    assert not (tmp_path / "r" / "incidents.jsonl").exists()


@pytest.mark.slow(one_in=5)
def test_jobs_of_a_killed_node_are_retried(nodes, executor, tmp_path):
    nodes.add("first", evokernel_backend_cpp=1)
    count = 12
    futures = [executor.submit(job) for job in make_jobs(count, tmp_path)]
    wait_until(lambda: any(future.done() for future in futures))
    nodes.kill("first")
    outcomes = [future.result(HANG_S) for future in futures]
    assert [n for n in range(count) if not is_outcome_of(n, outcomes[n])] == []


@pytest.mark.slow
def test_stopped_node_is_detected_and_its_late_replies_are_discarded(nodes, executor, tmp_path):
    nodes.add("third", evokernel_backend_cpp=1)
    nodes.add("fourth", evokernel_backend_cpp=1)
    count = 40
    futures = [executor.submit(job) for job in make_jobs(count, tmp_path)]
    futures[4].result(HANG_S)
    nodes.kill("third", signal.SIGSTOP)
    outcomes = [future.result(HANG_S) for future in futures]
    nodes.kill("third", signal.SIGCONT)
    time.sleep(5)
    assert [n for n in range(count) if not is_outcome_of(n, outcomes[n])] == []
    assert [future.result() for future in futures] == outcomes


def test_backend_that_no_node_offers_is_a_user_error(executor):
    executor.placement_timeout_s = 1
    with pytest.raises(UserError, match=r"no node of the Ray cluster offers 'evokernel-backend-nonesuch'.*worker --check"):
        executor.toolchain("nonesuch", {})


@pytest.mark.slow
def test_node_with_an_unavailable_backend_is_named(nodes, executor, tmp_path):
    nodes.add("liar", evokernel_backend_cuda=1)
    if not (reason := subprocess.run([sys.executable, "-c", UNAVAILABLE_REASON_SCRIPT], capture_output=True, text=True).stdout.strip()):
        pytest.skip("a GPU is here")
    with pytest.raises(UserError, match="is unavailable there"):
        executor.toolchain("cuda", {})
    (job,) = make_jobs(1, tmp_path)
    with pytest.raises(InfraError, match="is unavailable on the node"):
        executor.submit(job.model_copy(update={"backend": "cuda"})).result(HANG_S)
    assert reason


UNAVAILABLE_REASON_SCRIPT = (
    "from evokernel.core.plugins import make_plugin; b = make_plugin('backend', 'cuda'); "
    "print(b.unavailable_reason() or b.capabilities.limitations)"
)


def node(name, **resources):
    return {"NodeID": name, "Alive": True, "Resources": {key.replace("_", "-"): value for key, value in resources.items()}}


def test_job_takes_one_device_if_nodes_have_devices(executor, monkeypatch):
    nodes_found = [node("a", evokernel_backend_cuda=8, evokernel_device_cuda=2, GPU=2), node("b", evokernel_backend_cuda=8)]
    monkeypatch.setattr(executor_ray.ray, "nodes", lambda: nodes_found)
    options = executor.make_task_options("cuda", set())
    assert options["num_gpus"] == 1
    assert options["resources"] == {"evokernel-backend-cuda": 1, "evokernel-device-cuda": 1}
    assert options["label_selector"] is None
    executor.jobs_per_device = 4
    assert executor.make_task_options("cuda", set())["num_gpus"] == 0.25


def test_failing_nodes_are_avoided_while_others_exist(executor, monkeypatch):
    nodes_found = [node(name, evokernel_backend_cpp=1) for name in ("a", "b", "c")]
    monkeypatch.setattr(executor_ray.ray, "nodes", lambda: nodes_found)
    assert executor.make_task_options("cpp", {"a"})["label_selector"] == {"ray.io/node-id": "in(b,c)"}
    executor.record_failure("b", set(), at_once=True)
    assert executor.make_task_options("cpp", {"a"})["label_selector"] == {"ray.io/node-id": "c"}
    assert executor.make_task_options("cpp", {"a", "c"})["label_selector"] is None
    for _ in range(3):
        executor.record_failure("c", set())
    assert executor.make_task_options("cpp", set())["label_selector"] == {"ray.io/node-id": "a"}


def test_invalid_resources_are_refused():
    with pytest.raises(UserError, match="name=amount"):
        parse_amounts(["GPU"])
    assert parse_amounts(["GPU=1", "accelerator_type:H200=0.01"]) == {"GPU": 1.0, "accelerator_type:H200": 0.01}


@pytest.mark.slow(one_in=5)
def test_missing_cluster_is_a_user_error(tmp_path):
    arguments = [
        "run",
        "--backend",
        "cpp",
        "--set",
        "executor=ray",
        "--set",
        f'executor.address="127.0.0.1:{find_free_port()}"',
        "--out",
        str(tmp_path / "r"),
    ]
    process = subprocess.run([sys.executable, "-m", "evokernel.cli.main", *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 2
    assert process.stderr.strip().splitlines()[-1].startswith("error: no Ray cluster at")
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "r").exists()
