"""Requests to the timing server, with a driver whose device is the host."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from evokernel.backends.gpu import driver, latency, timing_client
from evokernel.backends.gpu.program import FILE, Copy, Fill, Program, format_programs
from evokernel.backends.gpu.timing_server import TimingServer
from evokernel.core.backend import DeviceCase
from evokernel.core.errors import CandidateError, InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
BYTES = 4 * 4096 * 8
COPY = (Copy(1, 0, 0, 0, BYTES),)
SOURCE = """
import torch
from torch import nn
N = 4096
class Model(nn.Module):
    def forward(self, x):
        return x.clone()
def get_inputs():
    return [torch.randn(N, 8)]
"""


@pytest.fixture
def task(tmp_path):
    (tmp_path / "copy.py").write_text(SOURCE)
    return load_tasks(str(tmp_path / "copy.py"))[0]


@pytest.fixture
def server(tmp_path_factory, monkeypatch):
    """The server's own code on the host; PyTorch's figures about the device are replaced."""
    library = tmp_path_factory.mktemp("driver") / "libcuda.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, Path(__file__).parent / "fake_cuda.c"], check=True)
    monkeypatch.setattr(driver, "LIBRARY", str(library))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(total_memory=16 << 30))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (14 << 30, 16 << 30))
    for name in ("set_per_process_memory_fraction", "reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 7)
    return TimingServer(0, lambda phase: None, "cpu")


@pytest.fixture
def check(server, task, tmp_path, monkeypatch):
    """Sends the request of the check gate as the client does."""

    def request(number, order, timeout_s, lock):
        assert lock is None, "small checks of several verifiers run at the same time"
        return json.loads(json.dumps(server.answer(json.loads(json.dumps(order)))))

    monkeypatch.setattr(timing_client, "request_timing", request)

    def run(*steps):
        programs = {latency.timing_order(task, tmp_path)["key"]: Program((BYTES, BYTES), 1, (), steps)}
        (tmp_path / FILE).write_text(format_programs(programs))
        job = Job(backend="cuda", task=task, candidate=Candidate(backend="cuda", files={}))
        return latency.check_timed_size(job, tmp_path, [DeviceCase("own", 3, repeats=2), DeviceCase("near", 3), DeviceCase("wide", 4)], 0)

    return run


def test_a_right_program_passes(check):
    assert [case.status for case in check(*COPY).cases] == ["passed"] * 3


def test_a_wrong_program_is_described(check):
    case = check(*COPY, Fill(1, 4 * (8 * 100 + 3), 0, 4)).cases[-1]
    assert (case.status, case.reason) == ("failed", "mismatch")
    assert case.difference.first[0].place == (100, 3)
    assert case.difference.first[0].actual == "0"


def test_an_output_that_is_not_written_is_found(check):
    case = check(Copy(1, 0, 0, 0, BYTES // 2)).cases[-1]
    assert case.reason == "unwritten"
    assert case.difference.unwritten_count == BYTES // 8


def test_a_task_that_does_not_fit_is_refused_with_the_figures(check, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(total_memory=200 << 20))
    with pytest.raises(UserError, match=r"needs about .* GB of device memory, but the GPU has 0.21 GB"):
        check(*COPY)


SLOW_SERVER = """
import sys, time
print('{"ready": 1}'); print('{}'); sys.stdout.flush()
sys.stdin.readline(); sys.stdin.readline()
for phase in %r:
    print('{"phase": "%%s"}' %% phase); sys.stdout.flush()
time.sleep(60)
"""


@pytest.mark.parametrize(("phases", "error"), [(["kernel"], CandidateError), (["kernel", "reference"], InfraError)])
def test_a_time_out_is_the_kernels_fault_only_while_it_runs(phases, error, monkeypatch):
    command = ["python3", "-c", SLOW_SERVER % phases]
    monkeypatch.setattr(timing_client.isolated_python, "isolated_command", lambda *_: command)
    monkeypatch.setattr(timing_client, "REFERENCE_S", 1.0)
    process = timing_client.TimingProcess(0)
    with pytest.raises(error, match="did not finish"):
        process.send_request({"check": 1}, 1.0)


@pytest.mark.parametrize(("spec", "size", "lock"), [("starter/softmax", "laptop", r"None"), ("level1/relu", "full", r"")])
def test_small_checks_need_no_lock_and_the_largest_the_device(spec, size, lock):
    assert re.fullmatch(lock, str(latency.choose_lock(load_tasks(spec, size)[0])))
