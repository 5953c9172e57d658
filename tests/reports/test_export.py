"""Exported kernels are self-contained: they build, run and match their reference in a process without this package."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample_export
import sample_run
import torch

from evokernel.core.errors import UserError
from evokernel.core.plugins import find_plugin, make_plugin, plugin_folder
from evokernel.core.records import Candidate
from evokernel.core.run import Run
from evokernel.reports import torch_operator
from evokernel.reports.export import export_kernels
from evokernel.reports.operator_spec import make_operator_spec
from evokernel.suites.loader import load_tasks

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
    outcome = sample_run.passed_outcome(10.0).model_copy(update={"protocol": "strict"})
    best = sample_run.make_attempt(task, 0, outcome, candidate=Candidate(backend="cpp", files={"kernel.cpp": KERNEL}))
    run = sample_run.write_run(
        tmp_path / "run",
        [task, unsolved_task],
        [best, sample_run.make_attempt(unsolved_task, 0, sample_run.failed_outcome("check", "nan"))],
    )
    prompt = run.artifact_folder(best.id) / "reply.prompt.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_text("write a kernel")
    return run


def run_python(code: str, folder: Path) -> str:
    """Run code in a process without this package's own path settings; return its output."""
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_exported_kernel_passes_its_own_tests_and_a_broken_one_does_not(run: Run, tmp_path: Path) -> None:
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    assert [kernel.operator for kernel in export.kernels] == ["torch.ops.evokernel_cpp.ops_mixed"]
    assert export.unsolved == ["made/never"]
    output = sample_export.run_tests(export.folder)
    assert "failed" not in output, output
    for test in (
        "other_dtype_is_refused",
        "other_rank",
        "other_size",
        "compiled_model_equals_eager",
        "exported_program",
        "gradients_raise",
    ):
        assert f"::test_{test}" in output
    broken_kernel = export.kernels[0].folder / "kernel.cpp"
    broken_kernel.write_text(broken_kernel.read_text().replace("+ (float)extra", ""))
    output = sample_export.run_tests(export.folder, "-k", "matches_the_reference")
    assert "6 failed" in output, output


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_installed_package_registers_operators(run: Run, tmp_path: Path) -> None:
    export = export_kernels(run, run.attempts(), tmp_path / "out", package="my_kernels")
    target = tmp_path / "site"
    options = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "-q", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", *options, str(export.folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    code = f"""
import sys
sys.path.insert(0, {str(target)!r})
import torch, my_kernels
from my_kernels.ops_mixed import Model, ModelNew
model = ModelNew(33, 1.5)
x = torch.randn(5, 33)
expected = Model.forward(model, x, 0.25)
direct = torch.ops.my_kernels.ops_mixed(x, model.weight, model.shift, 0.25, 33, 1.5)
assert torch.equal(direct[1], expected["argmax"]) and torch.allclose(direct[0], expected["scaled"], atol=1e-4)
assert list(model(x, extra=0.25)) == ["scaled", "argmax"]
for change in (x.half(), x.double(), x[None], x[0], x.expand(5, 33)[:, :32], torch.randn(41, 33), torch.randn(0, 33)):
    try:
        model(change, 0.25)
    except my_kernels.UnverifiedCallError as error:
        print(error)
try:
    ModelNew(33, 2.0)(x, 0.25)
except my_kernels.UnverifiedCallError as error:
    print(error)
my_kernels.configure(unsupported="reference")
assert torch.equal(model.double()(x.double(), 0.25)["scaled"], Model.forward(model, x.double(), 0.25)["scaled"])
"""
    lines = run_python(code, tmp_path).splitlines()
    expected_reasons = [
        "x is float16, but the kernel was verified with float32",
        "x is float64",
        "x has 3 dimensions, but the kernel was verified with 2",
        "x has 1 dimensions",
        "does not match COLS",
        "size 0 of x is 41, but was verified with 1 to 40",
        "size 0 of x is 0",
        "power is 2.0, but was verified with 1.5",
    ]
    assert len(lines) == len(expected_reasons)
    for line, reason in zip(lines, expected_reasons):
        assert reason in line
        assert "Verified: x float32 [ROWS, COLS], weight float32 [COLS], shift float32 [COLS]; ROWS 1 to 40, COLS 1 to 33" in line


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_compiled_model_with_parameters_that_require_gradients_runs_and_refuses_backward(run: Run, tmp_path: Path) -> None:
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    code = """
import torch, evokernel_cpp
from evokernel_cpp.ops_mixed import Model, ModelNew
model, x = ModelNew(33, 1.5), torch.randn(7, 33)
compiled = torch.compile(model, backend="aot_eager")
result = compiled(x, 0.25)["scaled"]
assert torch.equal(result, model(x, 0.25)["scaled"]) and result.requires_grad
try:
    result.sum().backward()
except RuntimeError as error:
    print(error)
evokernel_cpp.configure(backward="reference")
torch._dynamo.reset()
torch.compile(model, backend="aot_eager")(x, 0.25)["scaled"].sum().backward()
torch.testing.assert_close(model.weight.grad, x.sum(0))
"""
    output = run_python(code, export.folder)
    assert "has no backward kernel" in output
    assert 'evokernel_cpp.configure(backward="reference")' in output


def test_provenance_names_the_origin_of_a_kernel_and_what_was_verified(run: Run, tmp_path: Path) -> None:
    folder = export_kernels(run, run.attempts(), tmp_path / "out", only="mixed").kernels[0].folder
    assert sorted(path.name for path in folder.iterdir()) == [
        "__init__.py",
        "harness.h",
        "kernel.cpp",
        "kernel_call.py",
        "model_new.py",
        "operator.json",
        "provenance.json",
        "reference.py",
        "reference_small.py",
        "test_kernel.py",
    ]
    assert (folder / "reference.py").read_text() == TASK
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["run"] == "made-run"
    assert provenance["attempt"] == "ops/mixed/0"
    assert provenance["model"] is None
    assert len(provenance["prompt_sha256"]) == 64
    assert provenance["outcome"]["clock"] == "cpu"
    assert provenance["verified"]["at"] == "1970-01-01T00:16:40+00:00"
    assert provenance["verified"]["shapes"]["bench"]["x"] == [40, 33]
    assert "held_out" not in provenance["verified"]["shapes"], "generators must not learn hidden sizes"
    assert (provenance["timing"]["best_baseline"], provenance["timing"]["speedup"]) == ("eager", 10.0)
    assert "ops/mixed" in (tmp_path / "out" / "README.md").read_text()


def test_only_kernels_faster_than_their_best_baseline_are_exported(tmp_path: Path) -> None:
    tasks = [sample_run.make_task(name) for name in ("fast", "slow", "equal", "untimed", "beaten")]
    outcomes = [
        sample_run.passed_outcome(50.0),
        sample_run.passed_outcome(600.0),
        sample_run.passed_outcome(99.5),
        sample_run.passed_outcome(50.0).model_copy(update={"baseline_us": {}}),
        sample_run.passed_outcome(50.0).model_copy(update={"baseline_us": {"eager": (100.0,) * 5, "compile": (25.0,) * 5}}),
    ]
    attempts = [sample_run.make_attempt(task, 0, outcome) for task, outcome in zip(tasks, outcomes)]
    run = sample_run.write_run(tmp_path / "run", tasks, attempts)
    everything = export_kernels(run, run.attempts(), tmp_path / "out", export_all=True)
    names = ["made_fast", "made_slow_slower", "made_equal_not_faster", "made_untimed_not_compared", "made_beaten_slower"]
    assert [kernel.folder.name for kernel in everything.kernels] == names
    assert "6.00× slower than PyTorch eager" in (everything.kernels[1].folder / "model_new.py").read_text()
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "**6.00× slower than PyTorch eager**" in readme
    assert "**2.00× slower than torch.compile**" in readme
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    assert [path.parent.name for path in (tmp_path / "out").rglob("provenance.json")] == ["made_fast"], "earlier kernels are removed"
    assert [one.task for one in export.omitted] == ["made/slow", "made/equal", "made/untimed", "made/beaten"]
    assert "made/slow (6.00× slower), made/equal (within the noise)" in export.describe_omitted()
    assert "made/untimed (no baseline was timed)" in export.describe_omitted()
    with pytest.raises(UserError, match=r"no correct kernel is faster than its best baseline: made/slow \(6.00× slower\).*--all"):
        export_kernels(run, run.attempts(), tmp_path / "out", only="slow")


def test_package_gains_the_kernels_of_further_exports(tmp_path: Path) -> None:
    tasks = {name: sample_run.make_task(name) for name in ("fast", "slow", "other")}
    outcomes = {"fast": sample_run.passed_outcome(50.0), "slow": sample_run.passed_outcome(600.0), "other": sample_run.passed_outcome(20.0)}
    attempts = {name: sample_run.make_attempt(tasks[name], 0, outcome) for name, outcome in outcomes.items()}
    first = sample_run.write_run(tmp_path / "first", [tasks["fast"], tasks["slow"]], [attempts["fast"], attempts["slow"]])
    second = sample_run.write_run(tmp_path / "second", [tasks["other"]], [attempts["other"]], id="second-run")
    out = tmp_path / "out"
    export_kernels(first, first.attempts(), out, only="fast")
    export_kernels(first, first.attempts(), out, only="slow", export_all=True)
    export = export_kernels(second, second.attempts(), out)
    assert [kernel.task for kernel in export.kernels] == ["made/other"]
    assert [kernel.task for kernel in export.kept] == ["made/fast", "made/slow"]
    names = ["made_fast", "made_other", "made_slow_slower"]
    assert sorted(path.parent.name for path in out.rglob("provenance.json")) == names
    package = (out / "evokernel_cpp" / "__init__.py").read_text()
    project = tomllib.loads((out / "pyproject.toml").read_text())
    assert f"from . import {', '.join(names)}" in package
    assert project["tool"]["setuptools"]["packages"] == ["evokernel_cpp", *(f"evokernel_cpp.{name}" for name in names)]
    readme = (out / "README.md").read_text()
    assert readme.startswith("# Kernels of runs second-run, made-run")
    assert "Kept from earlier exports: `made_fast`, `made_slow_slower`." in readme
    assert "**6.00× slower than PyTorch eager**" in readme
    replaced = export_kernels(first, first.attempts(), out)
    assert [kernel.task for kernel in replaced.kept] == ["made/other"], "slow is a task of this run and is left out"


@pytest.mark.parametrize("backend", ["ascendc", "cpp", "cuda", "pallas", "triton"])
def test_every_backend_exports_the_functions_that_the_operator_calls(backend: str, tmp_path: Path) -> None:
    samples, file = plugin_folder("backend", backend) / "samples", find_plugin("backend", backend).file_name
    candidate_files = {file: (samples / "good" / file).read_text()}
    kernel = sample_export.export_kernel(tmp_path, samples / "task.py", backend, candidate_files)
    tree = ast.parse((kernel.folder / "kernel_call.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)}
    assert {"unavailable_reason", "prepare", "call"} <= defined
    assert {"DEVICE", "IS_SLOW"} <= assigned
    assert {"operator.json", "provenance.json", "test_kernel.py"} <= {path.name for path in kernel.folder.iterdir()}
    assert f'name = "evokernel-{backend}"' in (tmp_path / "out" / "pyproject.toml").read_text()


def test_sizes_that_only_change_together_share_a_symbol(tmp_path: Path) -> None:
    source = TASK.replace("torch.randn(width)", "torch.randn(2 * width)", 1).replace("x * self.weight", "x * self.weight[::2]")
    (tmp_path / "twice.py").write_text(source)
    [task] = load_tasks(str(tmp_path / "twice.py"))
    spec = make_operator_spec(task, "twice", "cpp", "strict", is_single_size=False).record
    assert [tensor["dims"] for tensor in spec["tensors"]] == [["ROWS", "COLS"], ["2*COLS"], ["COLS"]]
    assert spec["sizes"] == {"ROWS": (1, 40), "COLS": (1, 33)}
    single = make_operator_spec(task, "twice", "cpp", "strict", is_single_size=True)
    assert [tensor["dims"] for tensor in single.record["tensors"]] == [[40, 33], [66], [33]]
    assert single.references == {}


def test_reference_that_needs_gradients_gets_its_output_shapes_from_symbols(tmp_path: Path) -> None:
    [task] = load_tasks("starter/softmax:backward")
    spec = make_operator_spec(task, "softmax_grad", "cpp", "strict", is_single_size=False)
    assert spec.record["output_shapes"] == "symbols"
    (tmp_path / "operator.json").write_text(json.dumps(spec.record))
    (tmp_path / "reference.py").write_text(task.source)
    kernel = SimpleNamespace(DEVICE="cpu", prepare=lambda: None, call=lambda tensors, numbers, outputs: outputs[0].fill_(1))
    operator = torch_operator.TorchOperator(tmp_path, "evokernel_test", kernel)
    x, grad = torch.randn(2, 5, 7)
    assert torch.equal(operator.call(x, grad), torch.ones(5, 7))
    torch_operator.configure(unsupported="reference")
    try:
        wide = operator.call(x.double(), grad.double())
    finally:
        torch_operator.configure(unsupported="error")
    y = x.double().softmax(1)
    torch.testing.assert_close(wide, y * (grad - (grad * y).sum(1, keepdim=True)))


def test_unknown_task_is_refused_with_the_known_ones(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no task 'mixd'.*ops/mixed, made/never"):
        export_kernels(run, run.attempts(), tmp_path / "out", only="mixd")
    with pytest.raises(UserError, match="nothing to export"):
        export_kernels(run, run.attempts(), tmp_path / "out", only="never")
    with pytest.raises(UserError, match="not a name for a Python package"):
        export_kernels(run, run.attempts(), tmp_path / "out", package="my-kernels")
    assert not (tmp_path / "out").exists()


def test_backend_without_wrapper_exports_kernels_only(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.reports.export.find_wrapper", lambda backend: None)
    export = export_kernels(run, run.attempts(), tmp_path / "out")
    assert not export.has_wrapper
    assert not (export.kernels[0].folder / "model_new.py").exists()
    assert "has no PyTorch wrapper" in (export.folder / "README.md").read_text()
