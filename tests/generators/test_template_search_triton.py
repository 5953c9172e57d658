"""The Triton templates: kernels of every family are correct in Triton's interpreter, and compile for a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixed_drafts import MATRIX, TEXT, TWO, render_first_draft

from evokernel.core.records import Context, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.evidence import read_decisions
from evokernel.suites.loader import load_tasks

pytest.importorskip("triton")
pytestmark = pytest.mark.toolchain

RUNNER = Path(__file__).parent / "interpreted_kernels.py"
IMAGE = "torch.randn(1, 17, 9, A)"
CASES = {
    "tanh_channels": ("x, y", "torch.tanh(x + y.view(1, -1, 1, 1))", "torch.randn(2, 5, A, 9), torch.randn(5)", "form=tile rows=2 cols=32"),
    "flat_channels": ("x, y", "F.silu(x) * y.view(1, -1, 1, 1)", "torch.randn(2, 5, A, 9), torch.randn(5)", "form=flat block=256"),
    "halves_of_rows": ("x", "F.silu(x[:, :20]) * x[:, 20:]", MATRIX, ""),
    "power": ("x", "torch.pow(x, 2.5)", "torch.rand(A, B) + 0.1", ""),
    "rounding": ("x", "torch.where(x > 0, torch.sin(x), torch.cos(x)) + torch.round(x * 3) + torch.floor(x)", MATRIX, ""),
    "condition": ("x, y", "(x > y) & (x < 1)", TWO, ""),
    "softmax_whole": ("x", "torch.softmax(x, -1)", MATRIX, "algorithm=whole rows=2"),
    "softmax_online": ("x", "torch.softmax(x, -1)", "torch.randn(A, 300)", "algorithm=online rows=2 cols=256"),
    "softmax_split": ("x", "torch.softmax(x, -1)", "torch.randn(A, 300)", "algorithm=split splits=4 rows=1 cols=256"),
    "softmax_channels": ("x", "torch.softmax(x, 1)", "torch.randn(3, 6, A)", "algorithm=chunks rows=16 cols=4"),
    "batch_norm": ("x, w, b", "F.batch_norm(x, None, None, w, b, True)", "torch.randn(3, 5, 6, A), torch.randn(5), torch.randn(5)",
                   "algorithm=split splits=4 rows=2 cols=256"),
    "group_norm": ("x, w, b", "F.group_norm(x, 2, w, b)", "torch.randn(3, 6, 6, A), torch.randn(6), torch.randn(6)", ""),
    "mean_of_all": ("x, y", "((x - y) ** 2).mean()", TWO, "algorithm=split splits=4 rows=1"),
    "product_of_rows": ("x", "x.prod(1)", "torch.rand(A, B) + 0.5", ""),
    "first_smallest": ("x", "x.argmin(0)", MATRIX, "rows=16 cols=8"),
    "running_sum": ("x", "x.cumsum(0)", MATRIX, "rows=16 cols=8"),
    "running_product": ("x", "x.cumprod(1)", MATRIX, "rows=2 cols=128"),
    "transposed_left": ("x, y", "x.T @ y", TWO, "rows=16 cols=32 chunk=16"),
    "product_and_steps": ("x, y", "torch.relu(x @ y.T) + 1", TWO, "rows=32 cols=16 chunk=32 group=1"),
    "matrix_and_vector": ("x, y", "torch.relu(x @ y)", "torch.randn(A, 300), torch.randn(300)", "algorithm=sums rows=2 chunk=256"),
    "halves": ("x, y", "x @ y", "torch.randn(A, B).half(), torch.randn(B, A).half()", ""),
    "taps": ("x, w, b", "F.relu(F.conv2d(x, w, b, stride=2, padding=1))", f"{IMAGE}, torch.randn(6, 17, 3, 3), torch.randn(6)",
             "algorithm=taps"),
    "flat_convolution": ("x, w", "F.conv3d(x, w, stride=2)", "torch.randn(1, 3, 4, 5, A), torch.randn(9, 3, 3, 3, 3)", "algorithm=flat"),
    "depthwise": ("x, w", "F.conv2d(x, w, padding=1, groups=6)", "torch.randn(1, 6, 4, A), torch.randn(6, 1, 3, 3)", "algorithm=direct"),
    "transposed_convolution": ("x, w", "F.conv_transpose2d(x, w, stride=2, groups=2, dilation=2)",
                               "torch.randn(1, 18, 3, A), torch.randn(18, 9, 3, 3)", "algorithm=taps"),
    "transposed_line": ("x, w", "F.conv_transpose1d(x, w, stride=3, padding=1)", "torch.randn(2, 5, A), torch.randn(5, 9, 3)",
                        "algorithm=flat"),
    "mean_pooling": ("x", "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", "torch.randn(2, 3, A, B)", "loop=rolled"),
    "max_pooling": ("x", "F.max_pool1d(x, 3, 2, 1) * 2", "torch.randn(2, 3, A)", "loop=unrolled"),
    "permuted": ("x", "x.permute(2, 0, 1).contiguous()", "torch.randn(3, A, B)", "algorithm=tiled tile=16"),
    "permuted_plainly": ("x", "x.permute(2, 0, 1).contiguous()", "torch.randn(3, A, B)", "algorithm=plain"),
    "joined": ("x, y", "torch.cat([x, y, x], 1)", "torch.randn(A, 3), torch.randn(A, 5)", ""),
    "gathered": ("x, i", "torch.gather(x, 1, i)", "torch.randn(A, B), torch.randint(0, B, (A, 7))", ""),
    "table_rows": ("x, i", "x[i]", "torch.randn(A, B), torch.randint(0, A, (3, 7))", ""),
    "scattered": ("x, i, s", "x.scatter_add(1, i, s)", "torch.randn(A, B), torch.randint(0, B, (A, 7)), torch.randn(A, 7)", ""),
    "causal": ("q, k, v", "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
               "torch.randn(2, A, 20), torch.randn(2, A, 20), torch.randn(2, A, 12)", "rows=16 span=16"),
    "bags": ("i, w", "F.embedding_bag(i, w, mode='sum')", "torch.randint(0, A, (5, 4)), torch.randn(A, B)", ""),
    "cross_entropy": ("x, y", "F.cross_entropy(x, y)", "torch.randn(A, 300), torch.randint(0, 300, (A,))",
                      "algorithm=online rows=2 cols=256"),
    "resized": ("x", "F.interpolate(x, scale_factor=2, mode='bilinear')", "torch.randn(1, 2, 7, 9)", ""),
    "sampled": ("x, g", "F.grid_sample(x, g, align_corners=False)", "torch.randn(1, 2, 7, 9), torch.rand(1, 5, 6, 2) * 2 - 1", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder per case with its task and its kernel."""
    root = tmp_path_factory.mktemp("triton")
    for name, (names, body, inputs, line) in CASES.items():
        (root / name).mkdir()
        (root / name / "task.py").write_text(TEXT.format(names=names, body=body, inputs=inputs))
        (root / name / "kernel.py").write_text(render_first_draft(load_tasks(str(root / name / "task.py"))[0], "triton", line))
    return root


def run_cases(folders, **variables):
    """The failure of every case, found by one process."""
    command = [sys.executable, str(RUNNER), *(str(folders / name) for name in CASES)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folders, env={**os.environ, **variables})
    return json.loads(finished.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def interpreted(folders):
    return run_cases(folders, TRITON_INTERPRET="1")


@pytest.mark.parametrize("name", CASES)
def test_kernel_is_correct(interpreted, name):
    assert interpreted[name] == ""


@pytest.mark.slow
def test_kernels_compile_for_a_gpu(folders):
    assert {name: failure for name, failure in run_cases(folders).items() if failure} == {}


def test_cases_cover_every_template(folders):
    dialect = get_dialect("triton")
    used = {family for name in CASES for family, _ in read_decisions((folders / name / "kernel.py").read_text(), dialect.hints)}
    assert used - {"kernel"} == set(dialect.templates)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("starter/softmax", {"algorithm": "whole"}),
        ("starter/scale_shift", {"form": "tile", "cols": "1024"}),
        ("starter/matmul", {"precision": "tf32x3"}),
        ("starter/conv2d", {"algorithm": "taps"}),
    ],
)
def test_first_draft_follows_from_the_sizes(task, expected):
    code = TemplateSearch("triton").write(State(task=load_tasks(task)[0]), Context(stage=Stage.DRAFT)).candidate.code
    (choice,) = [choice for family, choice in read_decisions(code, get_dialect("triton").hints) if family != "kernel"]
    assert expected.items() <= choice.items()
