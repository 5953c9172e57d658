"""Generated files of a signature: msopgen's JSON, the binding and the PyTorch module, each checked independently."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evokernel.backends import ascendc
from evokernel.backends.ascendc import scaffolding
from evokernel.backends.ascendc.build import build
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.records import ScalarArgument, Signature, Tensor

HERE = Path(__file__).parent
SAMPLES = Path(ascendc.__file__).parent / "samples"
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=(6, 16)),),
    params=(Tensor(name="scale", dtype="float32", shape=(16,)), Tensor(name="shift", dtype="float32", shape=(16,))),
    scalars=(ScalarArgument(name="columns", kind="int", value=16), ScalarArgument(name="slope", kind="float", value=0.25)),
    outputs=(Tensor(name="out", dtype="float32", shape=(6, 16)),),
)
KINDS = {"float", "float16", "bfloat16", "double", "int8", "int16", "int32", "int64", "uint8", "bool"}


@pytest.fixture(scope="module")
def project():
    return parse_project({"kernel.asc": (SAMPLES / "good" / "kernel.asc").read_text()}, SIGNATURE)


def strictly(text):
    """The one operator in a json, when it is such as msopgen takes."""
    [description] = json.loads(text)
    assert set(description) <= {"op", "language", "input_desc", "output_desc", "attr"}
    assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", description["op"])
    for tensor in description["input_desc"] + description["output_desc"]:
        assert set(tensor) == {"name", "param_type", "format", "type"}
        assert len(tensor["format"]) == len(tensor["type"]) > 0
        assert set(tensor["type"]) <= KINDS
    for attribute in description.get("attr", []):
        assert set(attribute) == {"name", "param_type", "type"}
        assert attribute["type"] in {"int", "float", "bool"}
    return description


def test_the_json_describes_the_operator(project):
    description = strictly(scaffolding.scaffolding_files(project, SIGNATURE)["kernel_custom.json"])
    assert description["op"] == "KernelCustom"
    assert [tensor["name"] for tensor in description["input_desc"]] == ["x", "scale", "shift"]
    assert [tensor["type"] for tensor in description["output_desc"]] == [["float"]]
    assert [(one["name"], one["type"]) for one in description["attr"]] == [("columns", "int"), ("slope", "float")]


def test_strict_json_check_can_fail():
    x = {"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]}
    good = json.dumps([{"op": "AddCustom", "input_desc": [x], "output_desc": []}])
    strictly(good)
    for bad in (
        good.replace("AddCustom", "add_custom"),
        good.replace('["float"]', '["float", "float16"]'),
        good.replace("float", "float32"),
    ):
        with pytest.raises(AssertionError):
            strictly(bad)


def test_binding_has_names_and_types_of_the_signature(project):
    text = scaffolding.render_bind(project, SIGNATURE)
    assert "const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, int64_t columns, double slope, " in text
    assert "EXEC_NPU_CMD(aclnnKernelCustom, x_packed, scale_packed, shift_packed, columns, slope, out);" in text
    several = SIGNATURE.model_copy(
        update={
            "inputs": (),
            "params": (),
            "scalars": (),
            "outputs": tuple(Tensor(name=f"out{i}", dtype="int64", shape=(2,)) for i in range(2)),
        }
    )
    text = scaffolding.render_bind(project, several)
    assert "kernel_custom(const std::vector<int64_t>& out0_shape, const std::vector<int64_t>& out1_shape)" in text
    assert "EXEC_NPU_CMD(aclnnKernelCustom, out0, out1);" in text
    assert "options.dtype(at::kLong)" in text


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")
def test_binding_compiles_and_runs(project, tmp_path):
    build(replace(project, bind_source=scaffolding.render_bind(project, SIGNATURE), bound_function="kernel_custom"), tmp_path)
    given = [[[6, 16], "float32"], [[16], "float32"], [[16], "float32"], 16, 0.25, [[6, 16], "ints"]]
    call = {"function": "kernel_custom", "given": given, "outputs": [[[6, 16], "float32"]]}
    command = [sys.executable, str(HERE / "host_calls.py"), str(tmp_path), "2"]
    done = subprocess.run(command, input=json.dumps([call]), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    [answer] = json.loads(done.stdout)
    row = np.arange(16.0)
    expected = np.arange(96.0).reshape(6, 16) * row + row
    assert answer["code"] == "", answer["text"]
    np.testing.assert_allclose(np.reshape(answer["results"][0], (6, 16)), np.where(expected > 0, expected, 0.25 * expected), rtol=1e-6)


CALLER = """
import sys, types
import torch
seen = []
def kernel_custom(*given):
    seen.append([tuple(one.shape) if isinstance(one, torch.Tensor) else one for one in given])
    return [torch.ones(given[-1])]
library = types.ModuleType("custom_ops_lib")
library.kernel_custom = kernel_custom
sys.modules |= {"custom_ops_lib": library, "torch_npu": types.ModuleType("torch_npu")}
from model_new import ModelNew, get_init_inputs, get_inputs
model = ModelNew(*get_init_inputs())
print(model(*get_inputs()).sum().item(), seen)
"""


@pytest.mark.slow
def test_module_passes_arguments_in_order(project, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "reference.py").write_text((SAMPLES / "task.py").read_text().replace("192", "6").replace("512", "16"))
    (tmp_path / "model_new.py").write_text(scaffolding.render_model(project, SIGNATURE))
    (tmp_path / "caller.py").write_text(CALLER)
    done = subprocess.run([sys.executable, "caller.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == "96.0 [[(6, 16), (16,), (16,), 16, 0.25, [6, 16]]]\n", done.stderr[-2000:]
