"""Exported kernels stand on their own: they build, run and match their reference in a process that knows nothing of us."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import made_run
import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate
from evokernel.core.run import Run
from evokernel.reports.export import export
from evokernel.tasks.loader import load

TASK = """
import torch
import torch.nn as nn

ROWS, COLS = 40, 33


class Model(nn.Module):
    def __init__(self, width: int, power: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))
        self.register_buffer("shift", torch.randn(width))
        self.power = power

    def forward(self, x, extra: float):
        scaled = x * self.weight + self.shift * self.power
        return {"scaled": scaled + extra, "argmax": scaled.argmax(dim=1)}


def get_inputs():
    return [torch.randn(ROWS, COLS), 0.25]


def get_init_inputs():
    return [COLS, 1.5]
"""
KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, const float* weight, const int64_t* weight_shape, const float* shift,
                       const int64_t* shift_shape, double extra, int64_t width, double power, float* out0, const int64_t* out0_shape,
                       int64_t* out1, const int64_t* out1_shape) {
    for (int64_t i = 0; i < x_shape[0]; ++i) {
        float best = -INFINITY;
        for (int64_t j = 0; j < width; ++j) {
            const float v = x[i * width + j] * weight[j] + shift[j] * (float)power;
            out0[i * width + j] = v + (float)extra;
            if (v > best) { best = v; out1[i] = j; }
        }
    }
}
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    if missing := make_plugin("backend", "cpp").missing():
        pytest.skip(missing)
    file = tmp_path / "ops" / "mixed.py"
    file.parent.mkdir()
    file.write_text(TASK)
    [task] = load(str(file))
    unsolved = made_run.task("never")
    best = made_run.attempt(task, 0, made_run.passed(10.0), candidate=Candidate(backend="cpp", files={"kernel.cpp": KERNEL}))
    run = made_run.write_run(tmp_path / "run", [task, unsolved], [best, made_run.attempt(unsolved, 0, made_run.failed("check", "nan"))])
    prompt = run.artifact_folder(best.id) / "reply.prompt.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("write a kernel")
    return run


def test_exported_kernel_passes_its_own_test_and_a_broken_one_does_not(run: Run, tmp_path: Path) -> None:
    done = export(run, run.attempts(), tmp_path / "out")
    assert [kernel.task for kernel in done.kernels] == ["ops/mixed"]
    assert done.unsolved == ["made/never"]
    assert done.wrapped
    broken = shutil.copytree(done.kernels[0].folder, done.folder / "broken") / "kernel.cpp"
    broken.write_text(broken.read_text().replace("+ (float)extra", ""))
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", str(done.folder)]
    result = subprocess.run(command, cwd=done.folder, capture_output=True, text=True, timeout=200)
    assert "3 failed, 3 passed" in result.stdout, result.stdout + result.stderr
    assert result.stdout.count("PASSED ops-mixed/") == result.stdout.count("FAILED broken/") == 3


def test_provenance_says_where_a_kernel_comes_from(run: Run, tmp_path: Path) -> None:
    folder = export(run, run.attempts(), tmp_path / "out", only="mixed").kernels[0].folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "harness.h",
        "kernel.cpp",
        "model_new.py",
        "provenance.json",
        "reference.py",
        "test_kernel.py",
    ]
    assert (folder / "reference.py").read_text() == TASK
    found = json.loads((folder / "provenance.json").read_text())
    assert found["run"] == "made-run"
    assert found["attempt"] == "ops/mixed/0"
    assert found["model"] is None
    assert len(found["prompt_sha256"]) == 64
    assert found["outcome"]["clock"] == "cpu"
    assert "ops/mixed" in (tmp_path / "out" / "README.md").read_text()


def test_asking_for_what_is_not_there_says_what_is(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no task 'mixd'.*ops/mixed, made/never"):
        export(run, run.attempts(), tmp_path / "out", only="mixd")
    with pytest.raises(UserError, match="nothing to export"):
        export(run, run.attempts(), tmp_path / "out", only="never")
    assert not (tmp_path / "out").exists()


def test_a_backend_without_a_wrapper_exports_without_one(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.reports.export.wrapper", lambda backend: None)
    done = export(run, run.attempts(), tmp_path / "out")
    assert not done.wrapped
    assert not (done.kernels[0].folder / "model_new.py").exists()
    assert "brings no PyTorch wrapper" in (done.folder / "README.md").read_text()
