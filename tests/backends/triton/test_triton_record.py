"""A Triton launch function is recorded and compiled where there is no GPU, and its values are checked by the interpreter."""

import importlib.util
import subprocess

import pytest

from evokernel.backends.gpu.program import FILE, Fill, Launch, Pointer, Program, format_programs, read_programs
from evokernel.backends.gpu.sanitizer_run import list_needed_tools
from evokernel.backends.triton import build
from evokernel.core.errors import CandidateError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Job, Task
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify
from evokernel.verifier.evaluators import open_trial

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton")
TEXT = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": 256}, num_warps=4), triton.Config({"B": 512}, num_warps=8)], key=["n"])
@triton.jit
def gelu(x, y, n, half, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    u = 0.7978845608 * (v + 0.044715 * v * v * v)
    tl.store(y + i, half * v * (2.0 / (1.0 + tl.exp(-2.0 * u))), mask=i < n)


def kernel(x, out):
    n = x.numel()
    room = torch.zeros(n + 4, dtype=torch.float32, device=x.device)
    gelu[lambda meta: (triton.cdiv(n, meta["B"]),)](x, room[4:], n, 0.5)
    gelu[lambda meta: (triton.cdiv(n, meta["B"]),)](x, out.view(-1), n, 0.5)
"""


ROWS, COLUMNS = 64, 1024
TASK = f"""
import torch

ROWS, COLUMNS = {ROWS}, {COLUMNS}


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """Of few blocks: the interpreter runs them one after the other."""
    file = tmp_path_factory.mktemp("tasks") / "gelu.py"
    file.write_text(TASK)
    return load_tasks(str(file))[0]


def job(task: Task, text: str) -> Job:
    return Job(
        backend="triton",
        settings={"device": "never"},
        task=task,
        candidate=Candidate(backend="triton", files={"kernel.py": text}),
    )


def test_launches_scratch_and_configurations_are_recorded(task, tmp_path):
    asked = job(task, TEXT)
    with open_trial(asked, make_plugin("backend", "triton", device="never"), tmp_path) as trial:
        trial.evaluator.screen(trial)
        trial.evaluator.build(trial)
    found = read_programs(tmp_path / "programs" / FILE)
    program = next(one for one in found.values() if one.tensors == (ROWS * COLUMNS * 4,) * 2)
    fill, first, second = program.steps
    assert program.scratch == (4 * (ROWS * COLUMNS + 4),)
    assert fill == Fill(2, 0, 0, 4 * (ROWS * COLUMNS + 4))
    assert isinstance(first, Launch)
    assert [(one.tensor, one.offset) for one in first.pointers[:2]] == [(0, 0), (2, 16)]
    assert [(one.tensor, one.offset) for one in second.pointers[:2]] == [(0, 0), (1, 0)]
    assert (first.grid, first.block) == ((ROWS * COLUMNS // 256, 1, 1), (128, 1, 1))
    other = read_programs(tmp_path / "programs" / "choice1.json")
    assert {one.steps[1].grid for one in other.values() if one.tensors == program.tensors} == {(ROWS * COLUMNS // 512, 1, 1)}
    assert len(list((tmp_path / "programs").glob("*.image"))) >= 2, "one for every configuration, and for sizes that divide evenly"


@pytest.mark.slow(one_in=5)
def test_values_are_checked_but_not_timed_without_a_gpu(task):
    outcome = verify(job(task, TEXT))
    assert outcome.feasible, outcome.failure
    assert [gate.gate for gate in outcome.gates] == ["screen", "build", "check"]
    assert outcome.latency_us is None
    assert any(line.startswith("times (") for line in outcome.skipped_checks)


@pytest.mark.parametrize(
    ("old", "new", "reason", "words"),
    [
        ("room = torch.zeros", "x = torch.relu(x); room = torch.zeros", "forbidden", "relu computes with PyTorch"),
        ("room = torch.zeros", "out.copy_(x[:1]); room = torch.zeros", "forbidden", "copy_ between tensors of other"),
        ("room = torch.zeros", "x.sum().item(); room = torch.zeros", "forbidden", "sum computes"),
        ("import torch\n", "import torch\nimport os\n", "forbidden", "imports os"),
        ("half * v", "half * w", "compile_error", "w is not defined"),
        ("def kernel(x, out):", "def launch(x, out):", "symbol", "def kernel"),
    ],
)
def test_forbidden_code_is_refused(old, new, reason, words, task, tmp_path):
    with open_trial(job(task, TEXT.replace(old, new)), make_plugin("backend", "triton", device="never"), tmp_path) as trial:
        with pytest.raises(CandidateError) as caught:
            trial.evaluator.screen(trial)
    assert caught.value.reason == reason
    assert words in caught.value.detail


PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry add(.param .u64 out)
{{
    .reg .b32 %r<2>;
    {shared}
    mov.b32 %r1, 1;
    {body}
    ret;
}}
"""
ALL_TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]


@pytest.mark.parametrize(
    ("shared", "body", "dynamic_bytes", "tools"),
    [
        ("", "", 0, ["memcheck", "initcheck"]),
        ("", "", 64, ALL_TOOLS),
        (".shared .b8 room[64];", "st.shared.b32 [room], %r1;", 0, ALL_TOOLS),
        ("", "bar.sync 0;", 0, ["memcheck", "initcheck", "synccheck"]),
        ("", "shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;", 0, ["memcheck", "initcheck", "synccheck"]),
    ],
)
def test_the_sanitizer_runs_the_tools_that_can_find_something(tmp_path, shared, body, dynamic_bytes, tools):
    (tmp_path / "kernel0.ptx").write_text(PTX.format(shared=shared, body=body))
    command = [build.find_ptxas(), "--gpu-name=sm_90", tmp_path / "kernel0.ptx", "-o", tmp_path / "kernel0.image"]
    subprocess.run(command, check=True, capture_output=True)
    launch = Launch("kernel0.image", "add", (1, 1, 1), (32, 1, 1), dynamic_bytes, bytes(8), (Pointer(0, 0, 0),))
    (tmp_path / FILE).write_text(format_programs({"small": Program((64,), 1, (), (launch,))}))
    assert list_needed_tools(tmp_path) == tools
    (tmp_path / "kernel0.ptx").unlink()
    assert "synccheck" in list_needed_tools(tmp_path), "without its text, code may have barriers"
