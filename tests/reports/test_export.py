"""Exported kernels are self-contained: they build, run and match their reference in a process without this package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sample_run

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate
from evokernel.core.run import Run
from evokernel.reports.export import export_kernels
from evokernel.tasks.loader import load_tasks

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
    if reason := make_plugin("backend", "cpp").unavailable_reason():
        pytest.skip(reason)
    file = tmp_path / "ops" / "mixed.py"
    file.parent.mkdir()
    file.write_text(TASK)
    [task] = load_tasks(str(file))
    unsolved_task = sample_run.make_task("never")
    best = sample_run.make_attempt(
        task, 0, sample_run.passed_outcome(10.0), candidate=Candidate(backend="cpp", files={"kernel.cpp": KERNEL})
    )
    run = sample_run.write_run(
        tmp_path / "run",
        [task, unsolved_task],
        [best, sample_run.make_attempt(unsolved_task, 0, sample_run.failed_outcome("check", "nan"))],
    )
    prompt = run.artifact_folder(best.id) / "reply.prompt.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("write a kernel")
    return run


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_exported_kernel_passes_its_own_test_and_a_broken_one_does_not(run: Run, tmp_path: Path) -> None:
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    assert [kernel.task for kernel in export.kernels] == ["ops/mixed"]
    assert export.unsolved == ["made/never"]
    assert export.has_wrapper
    broken_kernel = shutil.copytree(export.kernels[0].folder, export.folder / "broken") / "kernel.cpp"
    broken_kernel.write_text(broken_kernel.read_text().replace("+ (float)extra", ""))
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", str(export.folder)]
    result = subprocess.run(command, cwd=export.folder, capture_output=True, text=True, timeout=200)
    assert "3 failed, 3 passed" in result.stdout, result.stdout + result.stderr
    assert result.stdout.count("PASSED ops-mixed/") == result.stdout.count("FAILED broken/") == 3


def test_provenance_names_the_origin_of_a_kernel(run: Run, tmp_path: Path) -> None:
    folder = export_kernels(run, run.attempts(), tmp_path / "out", only="mixed").kernels[0].folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "harness.h",
        "kernel.cpp",
        "model_new.py",
        "provenance.json",
        "reference.py",
        "test_kernel.py",
    ]
    assert (folder / "reference.py").read_text() == TASK
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["run"] == "made-run"
    assert provenance["attempt"] == "ops/mixed/0"
    assert provenance["model"] is None
    assert len(provenance["prompt_sha256"]) == 64
    assert provenance["outcome"]["clock"] == "cpu"
    assert "ops/mixed" in (tmp_path / "out" / "README.md").read_text()


def test_unknown_task_is_refused_with_the_known_ones(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no task 'mixd'.*ops/mixed, made/never"):
        export_kernels(run, run.attempts(), tmp_path / "out", only="mixd")
    with pytest.raises(UserError, match="nothing to export"):
        export_kernels(run, run.attempts(), tmp_path / "out", only="never")
    assert not (tmp_path / "out").exists()


def test_backend_without_wrapper_exports_kernels_only(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.reports.export.find_wrapper", lambda backend: None)
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    assert not export.has_wrapper
    assert not (export.kernels[0].folder / "model_new.py").exists()
    assert "has no PyTorch wrapper" in (export.folder / "README.md").read_text()
