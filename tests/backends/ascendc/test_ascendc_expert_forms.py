"""Forms of expert operators: code by core, specialisations in class scope, lists and texts through a binding, operators in place."""

from pathlib import Path

import pytest
from part_runs import build_parts, call_in_child

from evokernel.backends.ascendc.build import CUBE_SUFFIX, kernel_entries
from evokernel.backends.ascendc.class_scope import rewrite_class_scope
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job, Outcome, Signature, Tensor
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

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
BLOCKS = 4
ON_CUBE = """  void operator()<AscendC::AIC>(GM_ADDR x, GM_ADDR y, uint32_t length) {
    AscendC::GlobalTensor<T> from, to;
    from.SetGlobalBuffer((__gm__ T*)x, length);
    to.SetGlobalBuffer((__gm__ T*)y, length);
    uint32_t part = length / 4;
    for (uint32_t i = AscendC::GetBlockIdx() * part; i < (AscendC::GetBlockIdx() + 1) * part; i++) to.SetValue(i, from.GetValue(i) * 2);
  }
"""
"""A block on each of four cube cores computes a part."""
CALL = '[one.clone(), other.clone()], factors.cpu(), "minus", [9.0, 0.5], (7, 3)'
PREPARED_CALL = CALL.replace("one.clone()", "one.view(-1).clone().view(one.size(0), -1)").replace("3)", "one.shape[1])")
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


@pytest.mark.slow(one_in=5)
@needs_compiler
def test_each_core_runs_its_own_code(tmp_path):
    outcome = run(DOUBLED, BY_CORE, tmp_path)
    assert outcome.feasible, outcome.failure


@pytest.mark.slow(one_in=5)
@needs_compiler
def test_both_cores_have_the_same_variables_in_global_memory(tmp_path):
    kernel = BY_CORE["op_kernel/kernel.cpp"].replace("template <class T>\nclass", "__gm__ float factor = 2;\ntemplate <class T>\nclass")
    kernel = kernel.replace("    AscendC::CrossCoreSetFlag", "    factor = 3;\n    AscendC::CrossCoreSetFlag")
    kernel = kernel.replace("Factor<T>::value)", "factor)")
    outcome = run(DOUBLED.replace("2 * x", "3 * x"), BY_CORE | {"op_kernel/kernel.cpp": kernel}, tmp_path)
    assert any(gate.gate == "check" and gate.passed for gate in outcome.gates), outcome.failure


@pytest.mark.slow(one_in=5)
@needs_compiler
def test_a_kernel_on_cube_cores_runs_in_parts(tmp_path):
    kernel = BY_CORE["op_kernel/kernel.cpp"]
    start, stop = kernel.index("  void operator()<AscendC::AIC>"), kernel.rindex("};")
    files = BY_CORE | {"op_kernel/kernel.cpp": kernel[:start] + ON_CUBE + kernel[stop:]}
    files["op_host/operator.cpp"] = files["op_host/operator.cpp"].replace("SetBlockDim(1)", f"SetBlockDim({BLOCKS})")
    x, y = (Tensor(name=name, dtype="float32", shape=(BLOCKS * 64,)) for name in ("x", "y"))
    signature = Signature(inputs=(x,), outputs=(y,))
    found = call_in_child(build_parts(files, signature, tmp_path), "compare_parts", signature)
    assert (found["whole"]["blocks"], found["whole"]["blocks_run"]) == (BLOCKS, BLOCKS)
    assert found["is_covered"]
    assert (found["unequal"], found["outside"]) == ([], [])


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


@pytest.mark.slow(one_in=5)
@needs_compiler
@pytest.mark.parametrize("call", [CALL, PREPARED_CALL])
def test_binding_passes_lists_texts_and_numbers_and_the_operator_works_in_place(tmp_path, call):
    outcome = run(BLENDED, IN_PLACE | {"model.py": MODEL.format(call=call)}, tmp_path)
    assert any(gate.gate == "check" and gate.passed for gate in outcome.gates), outcome.failure


@pytest.mark.slow(one_in=5)
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


def test_steps_of_copies_and_of_elements_of_lists_are_parsed():
    signature = Signature(inputs=tensors("one", "other", "factors"), outputs=tensors("a", "b"))
    call = '[one.half().clone(), other.clone().view(2, -1)], factors.view(-1).cpu(), "minus", [9.0, 0.5], (one.size(0), 3)'
    project = parse_project(IN_PLACE | {"model.py": MODEL.format(call=call)}, signature)
    assert project.call_arguments[:2] == (("copies", (0, ("cast", "float16")), (1, ("reshape", 2, -1))), ("host", 2, ("reshape", -1)))
    assert project.call_arguments[4] == ("ints", ("size", ("tensor", 0), 0), 3)
    for swapped in ("[one.t().clone(), other.clone()], factors", "[one.clone()], factors.t().cpu()", "[one, other.t()], factors"):
        with pytest.raises(CandidateError, match="takes contiguous tensors"):
            parse_project(IN_PLACE | {"model.py": MODEL.format(call=swapped)}, signature)
