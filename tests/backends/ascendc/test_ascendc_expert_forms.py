"""Forms of expert operators: code by core, specialisations in class scope, lists and texts through a binding, operators in place."""

from pathlib import Path

import pytest

from evokernel.backends.ascendc.build import CUBE_SUFFIX, kernel_entries
from evokernel.backends.ascendc.class_scope import rewrite_class_scope
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job, Outcome, Signature, Tensor
from evokernel.tasks.loader import load_tasks
from evokernel.verify import verify

HERE = Path(__file__).parent / "expert_forms"
BY_CORE = {f"{part}/{name}": (HERE / "by_core" / part / name).read_text() for part, name in
           (("op_host", "operator.cpp"), ("op_host", "tiling.h"), ("op_kernel", "kernel.cpp"))}  # fmt: skip
IN_PLACE = {f"{part}/{name}": (HERE / "in_place" / part / name).read_text() for part, name in
            (("op_host", "operator.cpp"), ("op_host", "tiling.h"), ("op_kernel", "kernel.cpp"))}  # fmt: skip
IN_PLACE["bind.cpp"] = (HERE / "in_place/bind.cpp").read_text()
MODEL = """import torch
import custom_ops_lib

class ModelNew(torch.nn.Module):
    def forward(self, one, other, factors):
        return custom_ops_lib.blend({call})
"""
CALL = '[one.clone(), other.clone()], factors.cpu(), "minus", [9.0, 0.5], (7, 3)'
BLENDED = """import torch

class Model(torch.nn.Module):
    def forward(self, one, other, factors):
        return [3.5 - one * factors[0], 3.5 - other * factors[1]]

def get_inputs():
    return [torch.rand(4, 3), torch.rand(5), torch.rand(2)]
"""
DOUBLED = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x

def get_inputs():
    return [torch.rand(40)]
"""
needs_compiler = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def run(source: str, files: dict[str, str], folder: Path) -> Outcome:
    path = folder / "task.py"
    path.write_text(source)
    settings = {"level": "strict", "toolchain": "simulator"}
    candidate = Candidate(backend="ascendc", files=files)
    return verify(Job(backend="ascendc", settings=settings, task=load_tasks(str(path))[0], candidate=candidate, protocol="paper"))


def tensors(*names: str) -> tuple[Tensor, ...]:
    return tuple(Tensor(name=name, dtype="float32", shape=(4,)) for name in names)


@needs_compiler
def test_each_core_runs_its_own_code(tmp_path):
    outcome = run(DOUBLED, BY_CORE, tmp_path)
    assert outcome.feasible, outcome.failure


def test_a_kernel_without_code_for_vector_cores_is_compiled_for_the_cube_only():
    signature = Signature(inputs=tensors("x"), outputs=tensors("y"))
    assert list(kernel_entries(parse_project(BY_CORE, signature))) == ["by_core", f"by_core{CUBE_SUFFIX}"]
    kernel = BY_CORE["op_kernel/kernel.cpp"]
    cube_only = kernel[: kernel.rindex("  template <>")] + kernel[kernel.rindex("};") :]
    project = parse_project(BY_CORE | {"op_kernel/kernel.cpp": cube_only}, signature)
    assert list(kernel_entries(project)) == [f"by_core{CUBE_SUFFIX}"]
    plain = parse_project(BY_CORE | {"op_kernel/kernel.cpp": kernel.replace(" = g_coreType", " = 0")}, signature)
    assert kernel_entries(plain) == {"by_core": ()}


def test_specialisations_in_class_scope_are_rewritten():
    kernel = BY_CORE["op_kernel/kernel.cpp"]
    made = rewrite_class_scope(kernel)
    assert made.count("\n") == kernel.count("\n")
    assert "template <>" not in made
    assert made.count("(CORE_TYPE != (AscendC::AIC))") == made.count("(CORE_TYPE == (AscendC::AIV))") == 1
    assert "struct Factor<float, simulatorUnused>" in made
    assert "uint32_t values[RANK] = {};" in made
    outside = "template <class T> struct A {};\ntemplate <> struct A<int> { int x[2]; };\n"
    assert rewrite_class_scope(outside) == outside


@needs_compiler
def test_binding_passes_lists_texts_and_numbers_and_the_operator_works_in_place(tmp_path):
    outcome = run(BLENDED, IN_PLACE | {"model.py": MODEL.format(call=CALL)}, tmp_path)
    assert any(gate.gate == "check" and gate.passed for gate in outcome.gates), outcome.failure


@needs_compiler
def test_an_operator_in_place_needs_a_copy(tmp_path):
    outcome = run(
        BLENDED, IN_PLACE | {"model.py": MODEL.format(call=CALL.replace("one.clone()", "one").replace("other.clone()", "other"))}, tmp_path
    )
    assert outcome.failure
    assert outcome.failure.reason == "inputs"
    assert "pass a copy, as in x.clone()" in outcome.failure.detail


def test_model_of_a_folder_is_parsed():
    signature = Signature(inputs=tensors("one", "other", "factors"), outputs=tensors("a", "b"))
    project = parse_project(IN_PLACE | {"model.py": MODEL.format(call=CALL)}, signature)
    assert project.bound_function == "blend"
    assert project.call_arguments == (("copies", 0, 1), ("host", 2), ("text", "minus"), ("floats", 9.0, 0.5), ("ints", 7, 3))
    assert project.dtypes == {"X": "float", "FACTORS": "float"}
    assert "bind.cpp" not in project.files
    with pytest.raises(CandidateError, match="may only call the operator"):
        parse_project(IN_PLACE | {"model.py": MODEL.format(call="[one, 2.0], factors")}, signature)
