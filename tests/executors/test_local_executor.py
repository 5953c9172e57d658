"""A worker process may die without disturbing the run."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_parts import make_task
from time_limits import HANG_S, wait_until

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.executors.local import LocalExecutor, WorkerProcess, parse_reply
from evokernel.suites.loader import load_tasks

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
WRONG = Job(backend="cpp", task=make_task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": "this is not C++"}))


@pytest.fixture
def local():
    executor = LocalExecutor(workers=1)
    yield executor
    executor.close()


def test_job_returns_an_outcome(local):
    outcome = local.submit(WRONG).result()
    assert (outcome.failure.gate, outcome.failure.reason) == ("build", "compile_error")


def test_gates_are_reported_while_a_job_runs_if_it_asks(local):
    reported = []
    local.on_gate = lambda job, gate, result: reported.append((gate, result and result.reason))
    local.submit(WRONG).result()
    assert reported == []
    outcome = local.submit(WRONG.model_copy(update={"reports_gates": True})).result()
    assert reported == [("screen", None), ("screen", ""), ("build", None), ("build", "compile_error")]
    assert outcome.failure.reason == "compile_error"


def test_killed_worker_is_replaced(local):
    first_outcome = local.submit(WRONG).result()
    os.kill(local.workers[0].process.pid, signal.SIGKILL)
    second_outcome = local.submit(WRONG).result()
    assert [(g.gate, g.reason) for g in second_outcome.gates] == [(g.gate, g.reason) for g in first_outcome.gates]


@pytest.mark.parametrize(("program", "message"), [("kill -9 $$", "worker died"), ("exit 1", "traceback above")])
def test_worker_that_never_replies_is_an_infra_error(monkeypatch, program, message):
    start_times = []

    def start(self):
        start_times.append(program)
        return subprocess.Popen(["sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    monkeypatch.setattr(WorkerProcess, "start", start)
    executor = LocalExecutor(workers=1, max_attempts=2)
    with pytest.raises(InfraError, match=message):
        executor.submit(WRONG).result()
    executor.close()
    assert len(start_times) == (1 if program == "exit 1" else 2), "only a death from outside is retried"


def test_worker_ends_with_its_stdin():
    worker = subprocess.Popen([sys.executable, "-m", "evokernel.executors.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(0.2)
    worker.stdin.close()
    assert worker.wait(HANG_S) == 0
    worker.stdout.close()


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("g++"), reason="needs /proc and a compiler")
def test_worker_that_ends_during_a_job_leaves_nothing_behind(tmp_path):
    code = 'extern "C" void kernel(const float*, const int64_t*, float* out, const int64_t*) { for (volatile int i = 0;;) out[0] = i; }'
    path = tmp_path / "task.py"
    path.write_text(ENDLESS)
    job = Job(backend="cpp", task=load_tasks(str(path))[0], candidate=Candidate(backend="cpp", files={"kernel.cpp": code}))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "evokernel.executors.worker"]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    worker.stdin.write(job.model_dump_json().encode() + b"\n")
    worker.stdin.flush()
    start_times, children = [], []
    while not (start_times and children):
        assert worker.poll() is None
        time.sleep(0.02)
        start_times = list(tmp_path.glob("evokernel-verify-*/scratch-*.err"))
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split() if start_times else []
    worker.stdin.close()
    assert worker.wait(HANG_S) == 0
    worker.stdout.close()
    assert not start_times[0].parent.exists()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def test_reply_names_the_side_to_blame():
    with pytest.raises(UserError, match="no such task"):
        parse_reply('{"user_error": "no such task"}')
    with pytest.raises(InfraError, match="device lost"):
        parse_reply('{"infra_error": "device lost"}')


def test_file_in_the_working_folder_hides_no_library(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random')\n")
    monkeypatch.chdir(tmp_path)
    local = LocalExecutor(workers=1)
    assert local.submit(WRONG).result().failure.reason == "compile_error"
    local.close()
