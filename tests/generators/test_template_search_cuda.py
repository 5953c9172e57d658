"""The CUDA templates: kernels of every family are correct when they are emulated on the CPU, and compile for a GPU."""

import subprocess

import emulated_cuda
import pytest
from fixed_drafts import MATRIX, TEXT, TWO, render_first_draft

from evokernel.backends.cuda.abi import harness_header
from evokernel.backends.cuda.build import MISSING, find_nvcc
from evokernel.core.records import Context, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.evidence import read_decisions
from evokernel.suites.loader import load_tasks

pytestmark = pytest.mark.toolchain

CHANNELS, IMAGES = "torch.randn(2, 5, A, 9), torch.randn(5)", "torch.randn(3, 5, 6, A), torch.randn(5), torch.randn(5)"
CASES = {
    "tanh_channels": ("x, y", "torch.tanh(x + y.view(1, -1, 1, 1))", CHANNELS, "vector=4 grid=stride threads=64"),
    "aligned_channels": ("x, y", "F.silu(x) * y.view(1, -1, 1, 1)", "torch.randn(2, 5, A, 8), torch.randn(5)", "vector=4 each=2"),
    "halves_of_rows": ("x", "F.silu(x[:, :20]) * x[:, 20:]", MATRIX, "vector=4"),
    "unaligned_slice": ("x", "x[:, 1:] * 2", MATRIX, "vector=4"),
    "power": ("x", "torch.pow(x, 2.5)", "torch.rand(A, B) + 0.1", "vector=2"),
    "rounding": ("x", "torch.where(x > 0, torch.sin(x), torch.cos(x)) + torch.round(x * 3) + torch.floor(x)", MATRIX, ""),
    "condition": ("x, y", "(x > y) & (x < 1)", TWO, "vector=8"),
    "positions": ("x", "torch.triu(x) - 0.5", "torch.randn(A, A)", "vector=4"),
    "short_floats": ("x, y", "torch.relu(x.half() * y) - 1", "torch.randn(A, B), torch.randn(A, B).half()", "vector=8"),
    "softmax_registers": ("x", "torch.softmax(x, -1)", MATRIX, "hold=registers each=2 team=4 vector=4"),
    "softmax_shared": ("x", "torch.softmax(x, -1)", "torch.randn(A, 300)", "hold=shared each=1 team=64 vector=4 threads=128"),
    "softmax_reread": ("x", "torch.softmax(x, -1)", "torch.randn(A, 301)", "hold=nothing team=64 vector=4"),
    "softmax_online": ("x", "torch.softmax(x, -1)", "torch.randn(A, 300)", "algorithm=online team=32 vector=4"),
    "softmax_split": ("x", "torch.softmax(x, -1)", "torch.randn(A, 300)", "algorithm=split splits=4 team=32"),
    "softmax_channels": ("x", "torch.softmax(x, 1)", "torch.randn(3, 6, A)", "algorithm=rows team=2 each=2 hold=registers vector=4"),
    "online_channels": ("x", "F.log_softmax(x, 1)", "torch.randn(3, 6, A)", "algorithm=online team=4 vector=2"),
    "layer_norm": ("x, w, b", "F.layer_norm(x, (B,), w, b)", "torch.randn(A, B), torch.randn(B), torch.randn(B)", ""),
    "batch_norm": ("x, w, b", "F.batch_norm(x, None, None, w, b, True)", IMAGES, "algorithm=split splits=4 team=32 vector=4"),
    "batch_norm_rows": ("x, w, b", "F.batch_norm(x, None, None, w, b, True)", IMAGES, "algorithm=rows team=32 vector=2 hold=shared"),
    "group_norm": ("x, w, b", "F.group_norm(x, 2, w, b)", "torch.randn(3, 6, 6, A), torch.randn(6), torch.randn(6)", ""),
    "mean_of_all": ("x, y", "((x - y) ** 2).mean()", TWO, "algorithm=split splits=4 team=64"),
    "sum_of_columns": ("x", "x.sum(0)", MATRIX, "algorithm=split splits=4 team=4 vector=4"),
    "product_of_rows": ("x", "x.prod(1)", "torch.rand(A, B) + 0.5", "team=8"),
    "smallest_of_columns": ("x", "x.amin(0) + 1", MATRIX, "algorithm=rows team=8 vector=2"),
    "largest_half": ("x", "x.amax(1)", "torch.randn(A, B).bfloat16()", "vector=8 team=4"),
    "first_smallest": ("x", "x.argmin(0)", MATRIX, "team=8"),
    "first_largest": ("x", "torch.round(x).argmax(1)", "torch.randn(A, 300)", "team=64 vector=4"),
    "running_sum": ("x", "x.cumsum(0)", MATRIX, "team=4"),
    "running_sum_of_rows": ("x", "x.cumsum(1)", "torch.randn(A, 301)", "team=64 vector=4"),
    "running_product": ("x", "x.cumprod(1)", MATRIX, "team=8 vector=2"),
    "permuted": ("x", "x.permute(2, 0, 1).contiguous()", "torch.randn(3, A, B)", "algorithm=tiled tile=16"),
    "permuted_plainly": ("x", "x.permute(2, 0, 1).contiguous()", "torch.randn(3, A, B)", "algorithm=plain"),
    "flipped": ("x", "torch.flip(x, (1,)).cumsum(1)", MATRIX, ""),
    "joined": ("x, y", "torch.cat([x, y, x], 1)", "torch.randn(A, 3), torch.randn(A, 5)", ""),
    "gathered": ("x, i", "torch.gather(x, 1, i)", "torch.randn(A, B), torch.randint(0, B, (A, 7))", ""),
    "table_rows": ("x, i", "x[i]", "torch.randn(A, B), torch.randint(0, A, (3, 7))", "vector=4"),
    "cross_entropy": ("x, y", "F.cross_entropy(x, y)", "torch.randn(A, 300), torch.randint(0, 300, (A,))", "team=64 vector=4"),
    "two_stages": ("x", "torch.softmax((x.sum(1, keepdim=True) * x).sum(0), 0)", MATRIX, ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    root = tmp_path_factory.mktemp("tasks")
    for name, (names, body, inputs, _) in CASES.items():
        (root / f"{name}.py").write_text(TEXT.format(names=names, body=body, inputs=inputs))
    return {name: load_tasks(str(root / f"{name}.py"))[0] for name in CASES}


@pytest.fixture(scope="module")
def kernels(tasks):
    return {name: render_first_draft(tasks[name], "cuda", CASES[name][3]) for name in CASES}


@pytest.fixture(scope="module")
def library(kernels, tmp_path_factory):
    return emulated_cuda.build_library(kernels, tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("name", CASES)
def test_kernel_is_correct(library, tasks, name):
    assert emulated_cuda.find_difference(library, name, tasks[name].source) == ""


@pytest.mark.slow
@pytest.mark.skipif(find_nvcc("") is None, reason=MISSING)
@pytest.mark.parametrize("name", CASES)
def test_kernel_compiles_for_a_gpu(kernels, tasks, name, tmp_path):
    (tmp_path / "kernel.cu").write_text(kernels[name])
    (tmp_path / "harness.h").write_text(harness_header(tasks[name].signature))
    command = [find_nvcc(""), "-std=c++17", "-arch=sm_90", "-cubin", "-include", "harness.h", "kernel.cu", "-o", "kernel.cubin"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not finished.returncode, finished.stderr


def test_cases_cover_every_template(kernels):
    dialect = get_dialect("cuda")
    used = {family for text in kernels.values() for family, _ in read_decisions(text, dialect.hints)}
    assert used - {"kernel"} == set(dialect.templates)


def test_emulation_finds_wrong_kernels(kernels, tasks, tmp_path):
    """The emulation would be no check if it computed the right result from a wrong kernel."""
    plain = kernels["softmax_reread"]
    wrong = {"step": plain.replace("t1 / r1", "t1 - r1"), "edge": plain.replace("p < packs", "p + 1 < packs")}
    assert all(text != plain for text in wrong.values())
    library = emulated_cuda.build_library(wrong, tmp_path)
    assert all(emulated_cuda.find_difference(library, name, tasks["softmax_reread"].source) for name in wrong)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("starter/softmax", {"algorithm": "rows", "hold": "registers", "vector": "4"}),
        ("starter/scale_shift", {"vector": "4"}),
        ("level1/mean_squared_error", {"algorithm": "split"}),
    ],
)
def test_first_draft_follows_from_the_sizes(task, expected):
    code = TemplateSearch("cuda").write(State(task=load_tasks(task)[0]), Context(stage=Stage.DRAFT)).candidate.code
    choices = [choice for family, choice in read_decisions(code, get_dialect("cuda").hints) if family != "kernel"]
    assert expected.items() <= choices[0].items()


def test_other_operators_are_refused_in_one_line():
    reply = TemplateSearch("cuda").write(State(task=load_tasks("starter/conv2d")[0]), Context(stage=Stage.DRAFT))
    assert not reply.candidate.files
    assert reply.candidate.notes.startswith("template_search has no template for a conv kernel; a model can write this kernel")
