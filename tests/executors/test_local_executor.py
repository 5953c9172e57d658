"""A judge may die; the run may not notice."""

import os
import signal
import subprocess
import sys
import time

import pytest
from engine_parts import task

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.executors.local import Judge, Local, outcome

WRONG = Job(backend="cpp", task=task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "this is not C++"}))


@pytest.fixture
def local():
    made = Local(workers=1)
    yield made
    made.close()


def test_a_job_comes_back_as_an_outcome(local):
    found = local.submit(WRONG).result()
    assert (found.failure.gate, found.failure.reason) == ("build", "compile_error")


def test_a_killed_judge_is_replaced_and_blames_nobody(local):
    expected = local.submit(WRONG).result()
    os.kill(local.all[0].process.pid, signal.SIGKILL)
    again = local.submit(WRONG).result()
    assert [(g.gate, g.reason) for g in again.gates] == [(g.gate, g.reason) for g in expected.gates]


@pytest.mark.parametrize(("program", "says"), [("kill -9 $$", "worker died"), ("exit 1", "traceback above")])
def test_a_judge_that_never_answers_is_infrastructure(monkeypatch, program, says):
    started = []

    def start(self):
        started.append(program)
        return subprocess.Popen(["sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(Judge, "start", start)
    broken = Local(workers=1, tries=2)
    with pytest.raises(InfraError, match=says):
        broken.submit(WRONG).result()
    broken.close()
    assert len(started) == (1 if program == "exit 1" else 2), "only a death from outside is worth another try"


def test_a_worker_ends_with_whoever_asked():
    worker = subprocess.Popen([sys.executable, "-m", "evokernel.executors.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(0.2)
    worker.stdin.close()
    assert worker.wait(30) == 0
    worker.stdout.close()


def test_answers_say_whose_fault_it_is():
    with pytest.raises(UserError, match="no such task"):
        outcome('{"user": "no such task"}')
    with pytest.raises(InfraError, match="device lost"):
        outcome('{"infra": "device lost"}')
