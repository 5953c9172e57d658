"""A judge may die; the run may not notice."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_parts import task

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.executors.local import Local, WorkerProcess, outcome
from evokernel.tasks.loader import load

ENDLESS = """
import torch
from torch import nn
N = 64
class Model(nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(N)]
"""
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

    monkeypatch.setattr(WorkerProcess, "start", start)
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


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("g++"), reason="needs /proc and a compiler")
def test_a_worker_that_ends_in_the_middle_leaves_nothing_behind(tmp_path):
    code = 'extern "C" void kernel(const float*, const int64_t*, float* out, const int64_t*) { for (volatile int i = 0;;) out[0] = i; }'
    path = tmp_path / "task.py"
    path.write_text(ENDLESS)
    job = Job(backend="cpp", task=load(str(path))[0], candidate=Candidate(backend="cpp", files={"kernel.cpp": code}))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "evokernel.executors.worker"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    worker.stdin.write(job.model_dump_json().encode() + b"\n")
    worker.stdin.flush()
    started, children = [], []
    while not (started and children):
        assert worker.poll() is None
        time.sleep(0.02)
        started = list(tmp_path.glob("evokernel-judge-*/scratch-*.err"))
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split() if started else []
    worker.stdin.close()
    assert worker.wait(30) == 0
    worker.stdout.close()
    assert not started[0].parent.exists()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_answers_say_whose_fault_it_is():
    with pytest.raises(UserError, match="no such task"):
        outcome('{"user": "no such task"}')
    with pytest.raises(InfraError, match="device lost"):
        outcome('{"infra": "device lost"}')


def test_a_file_in_the_working_folder_hides_no_library(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random')\n")
    monkeypatch.chdir(tmp_path)
    local = Local(workers=1)
    assert local.submit(WRONG).result().failure.reason == "compile_error"
    local.close()
