"""The check at the timed size where inputs, reference and comparison are on one device: here the host is the device."""

import shutil
import subprocess
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
import torch

from evokernel.backends.gpu import driver
from evokernel.backends.gpu.device_check import DeviceCheck, is_subnormal
from evokernel.backends.gpu.device_memory import describe_shortage, plan_memory
from evokernel.backends.gpu.kernel_tensors import RecordedKernel
from evokernel.backends.gpu.program import FILE, Copy, Program, format_programs
from evokernel.core.backend import DeviceCase
from evokernel.core.errors import CandidateError
from evokernel.reference import tensor_compare
from evokernel.reference.device_reference import DeviceReference
from evokernel.reference.device_sample import have_equal_bits
from evokernel.reference.module import Reference
from evokernel.suites.loader import load_tasks

KINDS = ("own", "near", "wide", "shifted", "tiny", "normal", "heavy", "zeros", "constant")


class HostKernel:
    """A function of tensors in the place of a recorded kernel."""

    def __init__(self, function):
        self.function = function

    def run(self, inputs):
        self.inputs = [tensor.clone() for tensor in inputs]
        self.outputs = self.function(*self.inputs)

    def read_outputs(self):
        return [self.outputs.clone()]

    def has_inputs(self, inputs):
        return all(map(have_equal_bits, self.inputs, inputs))


@pytest.fixture(scope="module")
def softmax():
    return load_tasks("starter/softmax")[0]


def check(task, function, kinds=("own", "near", "wide"), protocol="strict", max_bytes=1 << 32, limit_s=100.0, repeats=2):
    reference = DeviceReference(Reference(task.source, task.id, task.sizes["bench"]), "cpu", task.work.peak_bytes, max_bytes)
    phases = []
    device_check = DeviceCheck(task, protocol, reference, HostKernel(function), phases.append, limit_s)
    result = device_check.run([DeviceCase(kind, 7, (True, True, True), repeats if not i else 1) for i, kind in enumerate(kinds)])
    assert phases[:2] == ["reference", "kernel"], "whoever waits must know whom to blame"
    return result


@pytest.mark.parametrize("max_bytes", [1 << 32, 1 << 21])
def test_a_right_kernel_passes_on_every_kind_of_inputs(softmax, max_bytes):
    """Also if the reference is computed in boxes, because memory is short."""
    result = check(softmax, lambda x: torch.softmax(x, -1), KINDS, max_bytes=max_bytes)
    assert {case.status for case in result.cases} <= {"passed", "unsuitable"}, result
    assert sum(case.status == "passed" for case in result.cases) >= 6
    assert not result.note


def test_boxes_give_the_same_outputs_as_one_call(softmax):
    reference = Reference(softmax.source, softmax.id, softmax.sizes["bench"])
    whole, split = (DeviceReference(reference, "cpu", softmax.work.peak_bytes, limit) for limit in (1 << 32, 1 << 21))
    one, other = (one.compute(one.draw_own(3)) for one in (whole, split))
    assert split.is_split
    assert not whole.is_split
    torch.testing.assert_close(other.own[0].tensor, one.own[0].tensor)
    torch.testing.assert_close(other.wide[0], one.wide[0], rtol=1e-13, atol=0)


def spoil(place, value):
    def function(x):
        out = torch.softmax(x, -1)
        out[place] = value
        return out

    return function


def write_half(x):
    out = torch.softmax(x, -1)
    out.view(torch.uint8)[out.shape[0] // 2 :] = 0xFF
    return out


def change_input(x):
    out = torch.softmax(x, -1)
    x[0, 0] += 1
    return out


def draw_noise(x):
    return torch.softmax(x, -1) * (1 + 1e-7 * torch.randint(0, 3, x.shape))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (spoil((3, 5), 0.5), "mismatch"),
        (spoil((3, 5), float("nan")), "nan"),
        (write_half, "unwritten"),
        (change_input, "inputs"),
        (draw_noise, "nondeterministic"),
        (lambda x: torch.softmax(x.bfloat16(), -1).float(), "mismatch"),
    ],
    ids=["one element", "nan", "half written", "input changed", "noise", "narrow"],
)
def test_a_wrong_kernel_fails_with_its_reason(softmax, function, reason, monkeypatch):
    monkeypatch.setattr(tensor_compare, "CHUNK_ELEMENTS", 1000)
    case = check(softmax, function).cases[-1]
    assert (case.status, case.reason) == ("failed", reason)
    if function.__qualname__.startswith("spoil"):
        assert case.difference.wrong_count == 1
        assert case.difference.first[0].place == (3, 5)
        assert case.difference.box == ((3, 3), (5, 5))


def test_results_of_an_earlier_call_are_recognized(softmax):
    memory = []

    def remember(x):
        memory.append(torch.softmax(x, -1))
        return memory[0]

    case = check(softmax, remember, ("own", "near"), repeats=1).cases[-1]
    assert (case.status, case.reason, case.is_stale) == ("failed", "mismatch", True)


def test_the_paper_protocol_has_its_own_tolerance(softmax):
    result = check(softmax, lambda x: torch.softmax(x, -1) + 0.009, ("own",), "paper")
    assert [case.status for case in result.cases] == ["passed"]


def test_further_kinds_are_skipped_when_the_time_is_over(softmax):
    result = check(softmax, lambda x: torch.softmax(x, -1), limit_s=0.0)
    assert [case.status for case in result.cases] == ["passed", "skipped", "skipped"]


def test_an_index_at_a_tie_may_be_either(tmp_path):
    path = tmp_path / "nearest.py"
    path.write_text(
        "import torch\nfrom torch import nn\nN = 4096\nclass Model(nn.Module):\n"
        "    def forward(self, x):\n        return torch.round(x)\n"
        "def get_inputs():\n    return [torch.rand(N, 8) * 4]\n"
    )
    task = load_tasks(str(path))[0]

    def round_other(x):
        return torch.round(x * (1 + 2**-23))

    assert [case.status for case in check(task, round_other, ("own",), repeats=1).cases] == ["passed"]


def test_memory_is_known_before_anything_is_allocated():
    task = load_tasks("level1/softmax", "full")[0]
    tensor_bytes = task.signature.inputs[0].nbytes
    plan = plan_memory(task)
    assert plan.check_bytes > 8 * tensor_bytes, "inputs and outputs twice, expected outputs in both precisions"
    assert plan.timing_bytes > 6 * tensor_bytes, "candidate and best kernel have tensors of their own"
    assert plan.is_whole(139 * 2**30)
    assert not plan.is_whole(plan.check_bytes + plan.reference_bytes - 1)
    assert describe_shortage(task, 141 * 10**9) == ""
    assert "GB of device memory, but the GPU has 8 GB" in describe_shortage(task, 8 * 10**9)


@pytest.fixture(scope="module")
def host_driver(tmp_path_factory):
    """A driver whose device is the host."""
    library = tmp_path_factory.mktemp("driver") / "libcuda.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, Path(__file__).parent / "fake_cuda.c"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "LIBRARY", str(library))
        yield driver.Driver(0)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize("fault", ["", "input", "outside"])
def test_a_recorded_program_runs_on_tensors_of_its_own(host_driver, tmp_path, fault):
    x, out = torch.arange(16, dtype=torch.float32), torch.empty(16, device="meta")
    (tmp_path / FILE).write_text(format_programs({"key": Program((64, 64), 1, (), (Copy(1, 0, 0, 0, 64),))}))
    with ExitStack() as resources:
        kernel = RecordedKernel(host_driver, tmp_path, "key", [x], [out], resources)
        places = {"input": kernel.tensors.inputs[0].place, "outside": kernel.tensors.outputs[0].after}
        if fault:  # what a kernel could do and a copy cannot
            kernel.program.steps.append(lambda stream: host_driver.fill(places[fault], 1, 4, stream))
        with pytest.raises(CandidateError, match="wrote outside its tensors") if fault == "outside" else nullcontext():
            kernel.run([x])
            assert kernel.has_inputs([x]) is not (fault == "input")
            assert torch.equal(kernel.read_outputs()[0], x)
            assert kernel.nbytes > 128


def test_outputs_without_a_normal_number_decide_nothing():
    values = [[1e-40, -1e-39], [0.0, 0.0], [1e-40, 1.0]]
    assert [is_subnormal(torch.tensor(one)) for one in values] == [True, False, False]
    assert not is_subnormal(torch.tensor([1e-40], dtype=torch.float64))
    assert not is_subnormal(torch.empty(0))
