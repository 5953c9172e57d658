"""A cluster on one machine whose nodes are killed and stopped: every verdict comes, each once, and nobody is blamed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
ray = pytest.importorskip("ray", reason="pip install 'evokernel[ray]'")

from ray_nodes import cluster, free_port, is_of, jobs  # noqa: E402

from evokernel.core.errors import InfraError, UserError  # noqa: E402
from evokernel.executors import ray as executor_ray  # noqa: E402
from evokernel.executors.ray import Ray, amounts  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a node in /proc")


@pytest.fixture(scope="module")
def nodes():
    with cluster(cores=1, evokernel_backend_cpp=1) as made:
        yield made


@pytest.fixture
def made(nodes):
    executor = Ray(address=nodes.address, silence_s=6, wait_s=2)
    yield executor
    executor.close()


@pytest.mark.slow
def test_a_run_goes_through_it(nodes, tmp_path):
    words = ["run", "--backend", "cpp", "--tasks", "starter/gelu", "--budget", "2", "--set", "executor=ray", "--json", "--fresh"]
    more = [
        "--set",
        f'executor.address="{nodes.address}"',
        "--set",
        "protocol=paper",
        "--set",
        "timing_s=0.05",
        "--out",
        str(tmp_path / "r"),
    ]
    done = subprocess.run([sys.executable, "-m", "evokernel.cli.main", *words, *more], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    attempts = [json.loads(line) for line in (tmp_path / "r" / "attempts.jsonl").read_text().splitlines()]
    assert len(attempts) == 2
    assert not (tmp_path / "r" / "incidents.jsonl").exists()


def test_a_killed_node_costs_nothing_but_time(nodes, made, tmp_path):
    nodes.add("first", evokernel_backend_cpp=1)
    count = 12
    futures = [made.submit(job) for job in jobs(count, tmp_path)]
    deadline = time.monotonic() + 120
    while not any(future.done() for future in futures) and time.monotonic() < deadline:
        time.sleep(0.05)
    nodes.kill("first")
    verdicts = [future.result(180) for future in futures]
    assert [n for n in range(count) if not is_of(n, verdicts[n])] == []


@pytest.mark.slow
def test_a_stopped_node_is_noticed_and_what_it_says_later_is_thrown_away(nodes, made, tmp_path):
    nodes.add("third", evokernel_backend_cpp=1)
    nodes.add("fourth", evokernel_backend_cpp=1)
    count = 40
    futures = [made.submit(job) for job in jobs(count, tmp_path)]
    futures[4].result(120)
    nodes.kill("third", signal.SIGSTOP)
    verdicts = [future.result(180) for future in futures]
    nodes.kill("third", signal.SIGCONT)
    time.sleep(5)
    assert [n for n in range(count) if not is_of(n, verdicts[n])] == []
    assert [future.result() for future in futures] == verdicts


def test_what_no_node_offers_is_one_line(made):
    with pytest.raises(UserError, match=r"no node of the Ray cluster offers 'evokernel-backend-nonesuch'.*worker --check"):
        made.toolchain("nonesuch", {})


@pytest.mark.slow
def test_a_node_that_offers_what_it_cannot_do_is_named(nodes, made, tmp_path):
    nodes.add("liar", evokernel_backend_cuda=1)
    if not (why := subprocess.run([sys.executable, "-c", LIES], capture_output=True, text=True).stdout.strip()):
        pytest.skip("a GPU is here")
    with pytest.raises(UserError, match="which cannot work there"):
        made.toolchain("cuda", {})
    (job,) = jobs(1, tmp_path)
    with pytest.raises(InfraError, match="cannot work there"):
        made.submit(job.model_copy(update={"backend": "cuda"})).result(120)
    assert why


LIES = "from evokernel.core.plugins import make; b = make('backend', 'cuda'); print(b.missing() or b.unjudged() or '')"


def node(name, **resources):
    return {"NodeID": name, "Alive": True, "Resources": {key.replace("_", "-"): value for key, value in resources.items()}}


def test_a_job_takes_a_device_to_itself_where_nodes_have_them(made, monkeypatch):
    found = [node("a", evokernel_backend_cuda=8, evokernel_device_cuda=2, GPU=2), node("b", evokernel_backend_cuda=8)]
    monkeypatch.setattr(executor_ray.ray, "nodes", lambda: found)
    asked = made.options("cuda", set())
    assert asked["num_gpus"] == 1
    assert asked["resources"] == {"evokernel-backend-cuda": 1, "evokernel-device-cuda": 1}
    assert asked["label_selector"] is None
    made.share = 4
    assert made.options("cuda", set())["num_gpus"] == 0.25


def test_nodes_in_trouble_are_avoided_while_there_are_others(made, monkeypatch):
    found = [node(name, evokernel_backend_cpp=1) for name in ("a", "b", "c")]
    monkeypatch.setattr(executor_ray.ray, "nodes", lambda: found)
    assert made.options("cpp", {"a"})["label_selector"] == {"ray.io/node-id": "in(b,c)"}
    made.trouble("b", set(), at_once=True)
    assert made.options("cpp", {"a"})["label_selector"] == {"ray.io/node-id": "c"}
    assert made.options("cpp", {"a", "c"})["label_selector"] is None
    for _ in range(3):
        made.trouble("c", set())
    assert made.options("cpp", set())["label_selector"] == {"ray.io/node-id": "a"}


def test_bad_settings_are_one_line():
    with pytest.raises(UserError, match="name=amount"):
        amounts(["GPU"])
    assert amounts(["GPU=1", "accelerator_type:H200=0.01"]) == {"GPU": 1.0, "accelerator_type:H200": 0.01}


def test_a_run_with_no_cluster_says_how_to_start_one(tmp_path):
    words = [
        "run",
        "--backend",
        "cpp",
        "--set",
        "executor=ray",
        "--set",
        f'executor.address="127.0.0.1:{free_port()}"',
        "--out",
        str(tmp_path / "r"),
    ]
    done = subprocess.run([sys.executable, "-m", "evokernel.cli.main", *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("error: no Ray cluster at")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()
