"""`evokernel worker`: judges what it is given, and says what it can."""

import json
import subprocess
import sys

from engine_parts import task

from evokernel.core.records import Candidate, Job

WORKER = [sys.executable, "-m", "evokernel.cli.main", "worker"]
JOB = Job(backend="cpp", task=task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "#error stop here\n"}))


def run(*options, given=""):
    return subprocess.run([*WORKER, *options], input=given, capture_output=True, text=True, timeout=120)


def test_one_job_one_answer():
    done = run("--once", given=JOB.model_dump_json(indent=2))
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["outcome"]["gates"][-1]["reason"] == "compile_error"


def test_what_is_no_job_is_told_in_one_line():
    done = run("--once", given="{}")
    assert "no job: backend: field required" in json.loads(done.stdout)["user"]
    assert "Traceback" not in done.stderr


def test_it_serves_lines_until_its_stdin_ends():
    worker = subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        worker.stdin.write(JOB.model_dump_json() + "\n")
        worker.stdin.flush()
        assert "stop here" in worker.stdout.readline()
    worker.stdin.close()
    assert worker.wait(30) == 0
    worker.stdout.close()


def test_check_says_what_this_machine_offers():
    done = run("--check", "--json")
    found = json.loads(done.stdout)
    ready = {row["backend"] for row in found["backends"] if row["why_not"] is None}
    assert {f"evokernel-backend-{name}" for name in ready} <= found["labels"].keys()
    assert done.returncode == (0 if ready else 1)
    assert found["ray_start"].startswith("ray start --address HEAD:6379")
    assert {"layer", "holds", "detail"} == found["sandbox"][0].keys()
    assert {"evokernel", "python", "torch", "ray"} == found["versions"].keys()


def test_devices_are_counted_as_far_as_they_are_shown(monkeypatch):
    from evokernel.cli.worker import devices

    row = {"equipment": [{"name": "gpu", "found": True, "detail": ""}, {"name": "ncu", "found": True, "detail": ""}]}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert devices(row) == {"GPU": 2}
    row["equipment"][0]["found"] = False
    assert devices(row) == {}
