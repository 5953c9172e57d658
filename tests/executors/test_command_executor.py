"""Whatever a command does instead of answering is infrastructure, in one line; and what it answers is an Outcome."""

import json
import os
import signal
import sys
import time

import pytest
from engine_parts import task

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job

JOB = Job(backend="cpp", task=task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "#error stop\n"}))
PASSED = {"gates": [{"gate": "build", "passed": True}]}
ONCE = f"import sys, json; json.load(sys.stdin); print('{json.dumps(PASSED)}')"
WORKER = [sys.executable, "-P", "-m", "evokernel.executors.worker"]


def asked(command, **settings):
    executor = make_plugin("executor", "command", command=command, **{"tries": 1, **settings})
    try:
        return executor.submit(JOB).result(60)
    finally:
        executor.close()


@pytest.mark.parametrize("answer", [json.dumps(PASSED), json.dumps({"outcome": PASSED}), json.dumps(PASSED, indent=2)])
def test_a_program_of_any_kind_answers_with_an_outcome(answer):
    found = asked([sys.executable, "-c", f"import sys; sys.stdin.read(); print('''{answer}''')"], keep=False)
    assert found.gates[0].passed


@pytest.mark.parametrize(
    ("program", "settings", "says"),
    [
        ("exit 7", {}, r"'sh' died \(exit code 7\)"),
        ("echo 'no route to host' >&2; exit 255", {}, r"exit code 255\); it said: no route to host"),
        ("kill -9 $$", {}, "killed by signal 9"),
        ("echo hello", {}, "no outcome: 'hello'"),
        ("echo '[1, 2]'", {}, "no outcome"),
        ("echo '{\"gates\": 3}'", {}, "no outcome"),
        ("echo hello; sleep 60", {}, "no outcome: 'hello'"),
        ("sleep 60", {"timeout_s": 0.5}, "gave no answer for 0 s|gave no answer for 1 s"),
        ("yes | tr -d '\\n'", {"timeout_s": 1}, "gave no answer"),
        ("cat > /dev/null; exit 3", {"keep": False}, "exit code 3"),
        (f"cat > /dev/null; echo '{json.dumps(PASSED)}'; exit 3", {"keep": False}, "exit code 3"),
        ('echo \'{"infra": "device lost"}\'', {}, "device lost"),
    ],
)
def test_trouble_is_infrastructure_in_one_line(program, settings, says):
    with pytest.raises(InfraError, match=says) as found:
        asked(["sh", "-c", program], **settings)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 800


def test_no_device_there_is_nobody_s_fault():
    answer = {"gates": [{"gate": "check", "passed": False, "reason": "not_run", "detail": "no GPU"}]}
    with pytest.raises(InfraError, match="no device where it was judged: no GPU"):
        asked(["sh", "-c", f"echo '{json.dumps(answer)}'"])


def test_a_dead_command_is_started_again(tmp_path):
    flag = tmp_path / "flag"
    program = f"if [ -e {flag} ]; then exec {' '.join(WORKER)}; else touch {flag}; kill -9 $$; fi"
    assert asked(["sh", "-c", program], tries=2).failure.reason == "compile_error"


def test_what_was_said_unasked_is_no_answer_to_the_next_job():
    late = f"while read job; do echo '{json.dumps(PASSED)}'; sleep 0.2; echo '{json.dumps(PASSED)}'; sleep 60; done"
    executor = make_plugin("executor", "command", command=["sh", "-c", late], tries=1)
    executor.submit(JOB).result(60)
    first = executor.all[0].process.pid
    time.sleep(1)
    executor.submit(JOB).result(60)
    assert executor.all[0].process.pid != first
    executor.close()


def test_a_worker_serves_job_after_job_several_at_once():
    executor = make_plugin("executor", "command", command=WORKER, jobs=2)
    assert {future.result(60).failure.reason for future in [executor.submit(JOB) for _ in range(4)]} == {"compile_error"}
    pids = [judge.process.pid for judge in executor.all if judge.process]
    os.kill(pids[0], signal.SIGKILL)
    assert executor.submit(JOB).result(60).failure.reason == "compile_error"
    executor.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "executor.command="),
        ({"command": "nonesuch-program worker"}, "no program 'nonesuch-program'"),
        ({"command": "sh '"}, "cannot be read"),
        ({"command": "sh", "jobs": 0}, "at least 1"),
    ],
)
def test_bad_settings_are_one_line(settings, says):
    with pytest.raises(UserError, match=says):
        make_plugin("executor", "command", **settings)
