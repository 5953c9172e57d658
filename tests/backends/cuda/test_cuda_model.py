"""Files as KernelBench has them: what their extensions launch is recorded where there is no GPU, with PyTorch's real headers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evokernel.app.kernel_files import detect_backend
from evokernel.backends.cuda.build import find_nvcc
from evokernel.backends.cuda.model import build as building
from evokernel.backends.cuda.model.build import FLAG, build_model, parse_extension
from evokernel.backends.cuda.record import RECORDER
from evokernel.backends.gpu.program import Copy, Fill, Launch, parse_program, validate_program
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job
from evokernel.reference.solution_binding import ReferenceTensor, match_reference_tensor
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

pytestmark = [pytest.mark.skipif(find_nvcc("") is None, reason="no nvcc"), pytest.mark.slow(group="cuda model", one_in=3)]
REFERENCE = """
import torch
import torch.nn as nn

rows, columns = 8, 64

class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.linear = nn.Linear(columns, columns)

    def forward(self, x, by):
        return self.linear.weight * x.sum() * by, x * self.linear.bias

def get_inputs():
    return [torch.rand(rows, columns), 2.0]

def get_init_inputs():
    return [columns]
"""
EXTENSION = r"""
from torch.utils.cpp_extension import load_inline
import torch
import torch.nn as nn

CUDA = '''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>

template <typename T> __global__ void scale(const T* x, const T* w, T* y, int64_t n, T by) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[i % 64] * by;
}

torch::Tensor scaled(torch::Tensor x, torch::Tensor w, double by) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be on the device");
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scaled", [&] {
    scale<scalar_t><<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel(), scalar_t(by));
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

torch::Tensor filled(torch::Tensor like, double value) {
  return torch::full({like.size(0), 64}, value, like.options().dtype(torch::kFloat32));
}

torch::Tensor elsewhere(torch::Tensor x) {
  scale<float><<<1, 1, 0, (cudaStream_t)0x1234>>>(x.data_ptr<float>(), x.data_ptr<float>(), x.data_ptr<float>(), 1, 1.0f);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return x;
}
'''
CPP = '''torch::Tensor scaled(torch::Tensor x, torch::Tensor w, double by);
torch::Tensor filled(torch::Tensor like, double value);
torch::Tensor elsewhere(torch::Tensor x);'''
made = load_inline(name="made", cpp_sources=CPP, cuda_sources=CUDA, functions=["scaled", "filled", "elsewhere"], extra_cuda_cflags=["-O2"])
"""
MODEL = """
class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.linear = nn.Linear(columns, columns)
        self.offset = torch.arange(64.0)

    def forward(self, x, by):
        weight, bias = self.linear.weight, self.linear.bias
        {}
"""
PLAIN = """
__global__ void scale(const float* x, const float* w, float* y, int64_t n, float by) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * w[i % 64] * by;
}
extern "C" __attribute__((visibility("default"))) void scaled(const float* x, const float* w, float* y, int64_t n, float by) {
  scale<<<(n + 255) / 256, 256>>>(x, w, y, n, by);
}
extern "C" __attribute__((visibility("default"))) void elsewhere(float* x) { scale<<<1, 1, 0, (cudaStream_t)0x1234>>>(x, x, x, 1, 1.0f); }
"""
RIGHT = "return made.scaled(weight.cuda(), weight, by), made.scaled(x.contiguous(), bias, 1.0)"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "both.py"
    path.write_text(REFERENCE)
    return load_tasks(str(path))[0]


@pytest.fixture(scope="module")
def built(task, tmp_path_factory) -> Path:
    """As a candidate's folder, but that its extension is a library without PyTorch's headers."""

    def compiled(tools, extension, number, workdir):
        (workdir / "plain").touch()
        (workdir / "plain.cu").write_text(PLAIN)
        flags = ["-std=c++17", "--no-compress", "-cudart", "none", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_90"]
        flags += ["-Xlinker", "--no-as-needed,-rpath,$ORIGIN", "-L.", "-Xlinker", f"-l:{RECORDER}"]  # as real ones are linked
        subprocess.run([tools.nvcc, *flags, "plain.cu", "-o", f"{extension.name}.so"], cwd=workdir, check=True)

    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "compile_extension", compiled)
        build_model(
            str(find_nvcc("")),
            "sm_90",
            {},
            task,
            Candidate(backend="cuda", files={"kernel.py": EXTENSION + MODEL.format(RIGHT)}),
            folder,
            120,
        )
    return folder


@pytest.fixture(scope="module")
def recorded(task, built):
    """What becomes of several bodies of `forward`, all at once: loading PyTorch takes longer than recording."""
    bodies = {
        "right": RIGHT,
        "brought": "return made.scaled(weight, self.offset, by), made.scaled(x, bias, 1.0)",
        "zeros": "y = torch.zeros_like(x); y.copy_(made.scaled(x, bias, 1.0)); return made.scaled(weight, weight, by), y",
        "view": "return made.scaled(weight.view(-1), weight, by).view(64, 64), made.scaled(x[2:], bias, 1.0).new_empty(8, 64)",
        "filled": "made.filled(x, -float('inf')); return made.scaled(weight, weight, by), made.filled(x, 1.0)",
        "same": "made.scaled(x, bias, by); return weight, x",
        "computes": "return made.scaled(weight, weight, by), x * bias",
        "matmul": "return torch.mm(weight, weight), made.scaled(x, bias, 1.0)",
        "reads": "n = int(x.sum()); return weight, x",
        "waits": "n = float(x[0, 0]); return weight, x",
        "stream": "made.elsewhere(x); return weight, x",
        "own stream": "torch.cuda.Stream(); return weight, x",
        "graph": "torch.cuda.CUDAGraph(); return weight, x",
        "nothing": "return weight, x",
        "shape": "return made.scaled(x, bias, 1.0), made.scaled(x, bias, 1.0)",
        "copied": "return weight.t().contiguous(), made.scaled(x, bias, 1.0)",
        "transposed": "return made.scaled(weight, weight, by).t(), made.scaled(x, bias, 1.0)",
        "host": "made.scaled(torch.zeros(4), bias, 1.0); return weight, x",
        "another": "load_inline(name='more', cpp_sources='', cuda_sources=CUDA); return weight, x",
    }
    signature = task.signature
    inputs, outputs = ([(t.name, t.dtype, t.shape) for t in part] for part in ((*signature.inputs, *signature.params), signature.outputs))
    texts = [EXTENSION + MODEL.format(body) for body in bodies.values()]
    numbers = [(scalar.name, scalar.kind, scalar.value) for scalar in signature.scalars]
    script = [sys.executable, str(Path(__file__).parent / "recorded_models.py"), str(built), json.dumps([inputs, numbers, outputs])]
    done = subprocess.run(script, input=json.dumps(texts), capture_output=True, text=True, check=True, timeout=200)
    return dict(zip(bodies, map(json.loads, done.stdout.splitlines()), strict=True))


def steps(found):
    assert "program" in found, found
    (made,) = json.loads(found["program"]).values()
    made = parse_program(made)
    validate_program(made)
    return made


def test_launches_are_recorded(recorded):
    made = steps(recorded["right"])
    assert made.tensors == (8 * 64 * 4, 64 * 64 * 4, 64 * 4, 64 * 64 * 4, 8 * 64 * 4), "x, weight, bias; both outputs"
    assert made.scratch == made.constants == ()
    first, second = made.steps
    assert isinstance(first, Launch) and isinstance(second, Launch)  # noqa: PT018
    assert [pointer.tensor for pointer in first.pointers] == [1, 1, 3], "the reference's weight, by its name"
    assert [pointer.tensor for pointer in second.pointers] == [0, 2, 4]
    assert first.grid == (16, 1, 1)
    assert "scale" in first.function


def test_constant_tensors_are_recorded_with_their_contents(recorded):
    made = steps(recorded["brought"])
    assert [len(data) for data in made.constants] == [256]
    assert made.constants[0][4:8] == b"\0\0\x80\x3f", "the second element is 1.0"
    assert [pointer.tensor for pointer in made.steps[0].pointers] == [1, 5, 3], "after inputs and outputs"


def test_model_tensors_match_the_reference_by_name_or_value():
    ones, zeros, drawn = torch.ones(4), torch.zeros(4), torch.rand(4)
    held = {"bn.weight": ones, "bn.bias": zeros, "bn.running_mean": zeros, "bn.running_var": ones, "fc.weight": drawn}
    known = [ReferenceTensor(name, tensor, tensor) for name, tensor in held.items()]

    def named(name: str, tensor: torch.Tensor) -> str | None:
        found = match_reference_tensor(name, tensor, known)
        return found and found.name

    assert [named(name.partition(".")[2], tensor) for name, tensor in held.items()] == [*list(held)[:4], "fc.weight"]
    assert named("fc.weight", ones) == "fc.weight", "its whole name, though it was drawn otherwise"
    assert named("w", drawn) == "fc.weight", "its values, though it has another name"
    assert named("scale", torch.full((4,), 2.0)) is named("weight", torch.ones(5)) is None
    assert match_reference_tensor("weight", drawn + 1e-6, known[-1:]).name == "fc.weight", "almost its values"


def test_filling_and_copying_complete_tensors(recorded):
    fill, launch, copy, _ = steps(recorded["zeros"]).steps
    assert isinstance(fill, Fill)
    assert isinstance(launch, Launch)
    assert isinstance(copy, Copy)
    assert (fill.tensor, fill.value, fill.length) == (4, 0, 8 * 64 * 4), "what is returned is the output itself"
    assert copy.tensor == 4
    scratch, _, ones = steps(recorded["filled"]).steps
    assert (scratch.value, scratch.width) == (0xFF800000, 4)
    assert (ones.value, ones.width, ones.tensor) == (0x3F800000, 4, 4)


def test_views_and_returned_inputs_are_recorded(recorded):
    first, second = steps(recorded["view"]).steps
    assert next(pointer.offset for pointer in second.pointers) == 2 * 64 * 4
    assert [pointer.tensor for pointer in first.pointers] == [1, 1, 3]
    launch, weight, x = steps(recorded["same"]).steps
    assert isinstance(launch, Launch)
    assert (weight.source, weight.tensor, x.source, x.tensor) == (1, 3, 0, 4)


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [
        ("computes", "forbidden", "mul computes with PyTorch"),
        ("matmul", "forbidden", "mm computes with PyTorch"),
        ("reads", "forbidden", "sum computes with PyTorch"),
        ("waits", "forbidden", "reads a tensor on the host"),
        ("stream", "stream", "another stream"),
        ("own stream", "stream", "a stream of its own"),
        ("graph", "forbidden", "captured graph"),
        ("nothing", "no_code", "launches no kernel"),
        ("shape", "mismatch", "the reference"),
        ("copied", "forbidden", "not contiguous"),
        ("transposed", "unsupported", "not contiguous"),
        ("another", "forbidden", "other extensions"),
    ],
)
def test_forbidden_model_code_is_refused(recorded, name, reason, said):
    assert recorded[name].get("reason") == reason, recorded[name]
    assert said in recorded[name]["detail"]


def test_extension_errors_are_reported(recorded):
    assert "x must be on the device" in recorded["host"]["raised"]


@pytest.mark.slow
def test_model_is_recorded_but_not_run_without_a_gpu(task):
    """The whole way, with PyTorch's headers, which take a minute."""
    outcome = verify(job(task, EXTENSION + MODEL.format(RIGHT)))
    assert [gate.gate for gate in outcome.gates] == ["screen", "build", "check"]
    assert outcome.gates[-1].reason == "not_run", outcome.gates[-1].detail


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("import torch\n", "symbol", "defines no class ModelNew"),
        (MODEL.format(RIGHT).replace("class", "import torch\nimport torch.nn as nn\nclass"), "no_code", "compiles no kernels"),
        pytest.param("class ModelNew:\n    pass\n", "symbol", "defines no class ModelNew(nn.Module)", marks=pytest.mark.slow),
        pytest.param("import nowhere\nclass ModelNew: pass\n", "trace_error", "No module named 'nowhere'", marks=pytest.mark.slow),
        ("from torch.utils.cpp_extension import load\nload('x', ['x.cu'])\nclass ModelNew: pass\n", "unsupported", "load_inline"),
        ("open('/etc/passwd').read()\nclass ModelNew: pass\n", "trace_error", "PermissionError"),
    ],
)
def test_file_errors_are_explained(task, text, reason, said):
    outcome = verify(job(task, text))
    assert outcome.failure.reason == reason, outcome.failure
    assert said in outcome.failure.detail


def job(task, text: str) -> Job:
    return Job(backend="cuda", settings={"device": "never"}, task=task, candidate=Candidate(backend="cuda", files={"kernel.py": text}))


def test_hostile_extension_descriptions_are_refused():
    given = {"name": "a", "cpp": "", "cuda": "", "functions": None, "flags": []}
    assert parse_extension(given).name == "a"
    for other in ({"name": "a; rm -rf /"}, {"functions": ['f", x']}, {"name": "../a"}, {"cuda": "x" * (2 << 20)}):
        with pytest.raises(CandidateError):
            parse_extension(given | other)


@pytest.mark.parametrize("flag", ["-O3", "--use_fast_math", "-use_fast_math", "--maxrregcount=64", "-Xptxas=-O3", "-DN=4", "--fmad=true"])
def test_kernel_compiler_options_are_kept(flag):
    assert FLAG.fullmatch(flag)


@pytest.mark.parametrize(
    "flag", ["-lcublas", "-ccbin=/tmp/x", "-I/root", "-o", "-include", "-arch=sm_70", "-Xcompiler=-fplugin=x", "@file"]
)
def test_other_compiler_options_are_dropped(flag):
    assert not FLAG.fullmatch(flag)


def test_backend_recognises_a_model_file(tmp_path):
    path = tmp_path / "solution.py"
    path.write_text(EXTENSION + MODEL.format(RIGHT))
    assert detect_backend(path) == "cuda"
    path.write_text("def kernel(x):\n    return x\n")
    assert detect_backend(path) != "cuda"
