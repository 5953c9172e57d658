"""A command returns an outcome; every other behaviour of the command is an infrastructure error in one line."""

import json
import os
import signal
import sys

import pytest
from engine_parts import make_task
from time_limits import HANG_S, wait_until

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job

JOB = Job(backend="cpp", task=make_task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "#error stop\n"}))
PASSED = {"gates": [{"gate": "build", "passed": True}]}
ONCE = f"import sys, json; json.load(sys.stdin); print('{json.dumps(PASSED)}')"
WORKER = [sys.executable, "-P", "-m", "evokernel.executors.worker"]


def verify_through_command(command, **settings):
    executor = make_plugin("executor", "command", command=command, **{"max_attempts": 1, **settings})
    try:
        return executor.submit(JOB).result(HANG_S)
    finally:
        executor.close()


@pytest.mark.parametrize("answer", [json.dumps(PASSED), json.dumps({"outcome": PASSED}), json.dumps(PASSED, indent=2)])
def test_any_program_can_return_an_outcome(answer):
    outcome = verify_through_command([sys.executable, "-c", f"import sys; sys.stdin.read(); print('''{answer}''')"], persistent=False)
    assert outcome.gates[0].passed


@pytest.mark.parametrize(
    ("program", "settings", "message"),
    [
        ("exit 7", {}, r"'sh' died \(exit code 7\)"),
        ("echo 'no route to host' >&2; exit 255", {}, r"exit code 255\); its stderr: no route to host"),
        ("kill -9 $$", {}, "killed by signal 9"),
        ("echo hello", {}, "not an outcome: 'hello'"),
        ("echo '[1, 2]'", {}, "not an outcome"),
        ("echo '{\"gates\": 3}'", {}, "not an outcome"),
        ("echo hello; sleep 60", {}, "not an outcome: 'hello'"),
        ("sleep 60", {"timeout_s": 0.5}, "did not reply within 0 s|did not reply within 1 s"),
        ("yes | tr -d '\\n'", {"timeout_s": 1}, "did not reply within"),
        ("cat > /dev/null; exit 3", {"persistent": False}, "exit code 3"),
        (f"cat > /dev/null; echo '{json.dumps(PASSED)}'; exit 3", {"persistent": False}, "exit code 3"),
        ('echo \'{"infra_error": "device lost"}\'', {}, "device lost"),
    ],
)
def test_failure_is_an_infra_error_in_one_line(program, settings, message):
    with pytest.raises(InfraError, match=message) as error:
        verify_through_command(["sh", "-c", program], **settings)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 800


def test_missing_remote_device_is_an_infra_error():
    answer = {"gates": [{"gate": "check", "passed": False, "reason": "not_run", "detail": "no GPU"}]}
    with pytest.raises(InfraError, match="the verifying machine has no device: no GPU"):
        verify_through_command(["sh", "-c", f"echo '{json.dumps(answer)}'"])


def test_dead_command_is_restarted(tmp_path):
    flag = tmp_path / "flag"
    program = f"if [ -e {flag} ]; then exec {' '.join(WORKER)}; else touch {flag}; kill -9 $$; fi"
    assert verify_through_command(["sh", "-c", program], max_attempts=2).failure.reason == "compile_error"


def test_unrequested_output_is_not_a_reply_to_the_next_job(tmp_path):
    reply, wait = f"echo '{json.dumps(PASSED)}'", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; rm {tmp_path}/go"
    late = f"while read job; do {reply}; {wait}; {reply}; touch {tmp_path}/late; sleep 900; done"
    executor = make_plugin("executor", "command", command=["sh", "-c", late], max_attempts=1)
    executor.submit(JOB).result(HANG_S)
    first = executor.workers[0].process.pid
    (tmp_path / "go").touch()
    wait_until((tmp_path / "late").exists)
    executor.submit(JOB).result(HANG_S)
    assert executor.workers[0].process.pid != first
    executor.close()


def test_persistent_workers_serve_several_jobs():
    executor = make_plugin("executor", "command", command=WORKER, jobs=2)
    assert {future.result(HANG_S).failure.reason for future in [executor.submit(JOB) for _ in range(4)]} == {"compile_error"}
    pids = [worker.process.pid for worker in executor.workers if worker.process]
    os.kill(pids[0], signal.SIGKILL)
    assert executor.submit(JOB).result(HANG_S).failure.reason == "compile_error"
    executor.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "executor.command="),
        ({"command": "nonesuch-program worker"}, "program 'nonesuch-program' not found"),
        ({"command": "sh '"}, "cannot be parsed"),
        ({"command": "sh", "jobs": 0}, "at least 1"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        make_plugin("executor", "command", **settings)
