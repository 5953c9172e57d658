"""`evokernel worker`: answers jobs, and reports what the machine can verify."""

import json
import subprocess
import sys

from engine_parts import make_task

from evokernel.core.records import Candidate, Job

WORKER = [sys.executable, "-m", "evokernel.cli.main", "worker"]
JOB = Job(backend="cpp", task=make_task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "#error stop here\n"}))


def run_worker(*options, stdin=""):
    return subprocess.run([*WORKER, *options], input=stdin, capture_output=True, text=True, timeout=120)


def test_one_job_gets_one_answer():
    process = run_worker("--once", stdin=JOB.model_dump_json(indent=2))
    assert process.returncode == 0, process.stderr
    (line,) = process.stdout.splitlines()
    assert json.loads(line)["outcome"]["gates"][-1]["reason"] == "compile_error"


def test_invalid_job_is_reported_in_one_line():
    process = run_worker("--once", stdin="{}")
    assert "invalid job: backend: field required" in json.loads(process.stdout)["user_error"]
    assert "Traceback" not in process.stderr


def test_worker_answers_lines_until_stdin_ends():
    worker = subprocess.Popen(WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        worker.stdin.write(JOB.model_dump_json() + "\n")
        worker.stdin.flush()
        assert "stop here" in worker.stdout.readline()
    worker.stdin.close()
    assert worker.wait(30) == 0
    worker.stdout.close()


def test_check_reports_what_this_machine_offers():
    process = run_worker("--check", "--json")
    report = json.loads(process.stdout)
    ready = {row["backend"] for row in report["backends"] if row["cannot_verify_reason"] is None}
    assert {f"evokernel-backend-{name}" for name in ready} <= report["ray_resources"].keys()
    assert process.returncode == (0 if ready else 1)
    assert report["ray_start"].startswith("ray start --address HEAD:6379")
    assert {"layer", "is_active", "detail"} == report["sandbox"][0].keys()
    assert {"evokernel", "python", "torch", "ray"} == report["versions"].keys()


def test_hidden_devices_are_not_counted(monkeypatch):
    from evokernel.app.machine_checks import BackendStatus
    from evokernel.app.worker_check import count_devices
    from evokernel.core.backend import OptionalTool

    gpu, ncu = (OptionalTool(name, is_available=True, detail="") for name in ("gpu", "ncu"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert count_devices(BackendStatus("cuda", True, None, {}, (gpu, ncu))) == {"GPU": 2}
    assert count_devices(BackendStatus("cuda", True, None, {}, (gpu._replace(is_available=False), ncu))) == {}
