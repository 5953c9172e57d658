"""Candidates in their three forms: what is read off them, and what is said about those that cannot be read."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.backends import ascendc
from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.bindings import Bound, Parameter, bound_functions
from evokernel.backends.ascendc.model_call import Call, model_call, passed_in_order
from evokernel.backends.ascendc.project import read
from evokernel.core.errors import CandidateError
from evokernel.core.records import ScalarArgument, Signature, Tensor

SAMPLES = Path(ascendc.__file__).parent / "samples"
OURS = (SAMPLES / "good" / "kernel.asc").read_text()
SIX = (SAMPLES / "good-six-parts" / "kernel.txt").read_text().removeprefix("```python\n").rstrip().removesuffix("```")
FOLDER = {str(path.relative_to(SAMPLES / "good-folders")): path.read_text() for path in (SAMPLES / "good-folders").rglob("*.*")}
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=(192, 512)),),
    params=(Tensor(name="scale", dtype="float32", shape=(512,)), Tensor(name="shift", dtype="float32", shape=(512,))),
    scalars=(ScalarArgument(name="columns", kind="int", value=512), ScalarArgument(name="slope", kind="float", value=0.25)),
    outputs=(Tensor(name="out", dtype="float32", shape=(192, 512)),),
)


def refused(files, signature=SIGNATURE):
    with pytest.raises(CandidateError) as caught:
        read(files, signature)
    return caught.value.reason, caught.value.detail


def ours(old="", new=""):
    assert old in OURS
    return {"kernel.asc": OURS.replace(old, new)}


# ---- one file in three parts


def test_three_parts():
    project = read({"kernel.asc": OURS}, SIGNATURE)
    assert (project.op, project.entry, project.parameters) == ("KernelCustom", "kernel_custom", 6)
    assert list(project.files) == ["tiling.h", "op_host.cpp", "op_kernel.cpp"]
    assert (project.kernel, project.hosts, project.header) == ("op_kernel.cpp", ("op_host.cpp",), "tiling.h")
    assert project.tiling == "optiling::KernelCustomTilingData"
    assert project.dtypes == {"X": "float", "SCALE": "float", "SHIFT": "float", "OUT": "float"}
    assert (project.bind, project.function, project.call) == ("", "", ())
    assert "".join(re.findall(r"// file: .*\n", OURS)) == "// file: tiling.h\n// file: op_host.cpp\n// file: op_kernel.cpp\n"
    assert sum(map(len, project.files.values())) == len(re.sub(r"// file: .*\n", "", OURS))


def test_a_header_the_kernel_includes_is_not_shown_to_it_twice():
    project = read(ours('#include "kernel_operator.h"', '#include "kernel_operator.h"\n#include "tiling.h"'), SIGNATURE)
    assert project.header == ""


def test_a_tiling_class_in_the_host_source_reaches_the_kernel():
    found = read(ours(), SIGNATURE).files
    moved = found["op_host.cpp"].replace('#include "tiling.h"', '#include "register/tilingdata_base.h"\n' + found["tiling.h"])
    text = f"// file: tiling.h\n// nothing\n// file: op_host.cpp\n{moved}// file: op_kernel.cpp\n{found['op_kernel.cpp']}"
    project = read({"kernel.asc": text}, SIGNATURE)
    assert project.header == "tiling_structs.h"
    assert "BEGIN_TILING_DATA_DEF(KernelCustomTilingData)" in project.files["tiling_structs.h"]
    assert "namespace optiling {" in project.files["tiling_structs.h"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no file"),
        ({"kernel.asc": " \n"}, "is empty"),
        ({"kernel.asc": "int main() {}"}, "tiling.h, op_host.cpp, op_kernel.cpp missing"),
        (ours("// file: op_host.cpp", ""), "op_host.cpp missing"),
        (ours("// file: op_host.cpp", "// file: tiling.h"), "two parts are called tiling.h"),
        (ours("// file: tiling.h", "// file: ../tiling.h"), "../tiling.h is no name"),
    ],
)
def test_no_code(files, said):
    reason, detail = refused(files)
    assert (reason, said in detail) == ("no_code", True), detail
    assert "`// file: tiling.h`, `// file: op_host.cpp`, `// file: op_kernel.cpp`" in detail
    assert "\n" not in detail


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("OP_ADD(KernelCustom)", "OP_ADD(Other)", "OP_ADD names Other"),
        ("OP_ADD(KernelCustom);", "", "OP_ADD names nothing"),
        ("OP_ADD(KernelCustom);", "// OP_ADD(KernelCustom);", "OP_ADD names nothing"),
        ("void kernel_custom(", "void other(", "it has other"),
        ("GM_ADDR shift, ", "", "parameters, not 6"),
        ('extern "C" __global__', "__global__", 'it lacks extern "C"'),
        ("__global__ __aicore__ void", "__aicore__ void", "no function with __global__"),
    ],
)
def test_the_names_follow_from_the_signature(old, new, said):
    reason, detail = refused(ours(old, new))
    assert (reason, said in detail) == ("symbol", True), detail


def test_the_right_declaration_is_shown():
    _, detail = refused(ours("void kernel_custom(", "void other("))
    assert "void kernel_custom(GM_ADDR x, GM_ADDR scale, GM_ADDR shift, GM_ADDR out, GM_ADDR workspace, GM_ADDR tiling)" in detail


# ---- what texts say


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('extern "C" __global__ __aicore__ void f(GM_ADDR a, GM_ADDR b) {}', [("f", 2, True)]),
        ('extern "C"\n__global__\n__aicore__ void\nf(\n  GM_ADDR a,\n  __gm__ uint8_t* b // c, d\n)\n{ }', [("f", 2, True)]),
        ('__global__ __aicore__ extern "C" void f(GM_ADDR a){}', [("f", 1, True)]),
        ('extern "C" { __global__ __aicore__ void f(GM_ADDR a) {} }', [("f", 1, True)]),
        ("__global__ __aicore__ void f(GM_ADDR a) {}", [("f", 1, False)]),
        ('extern "C" __global__ [aicore] void f(void) {}', [("f", 0, True)]),
        ('extern "C" __global__ __aicore__ void f(GM_ADDR a);', []),
        ("template <int N> __global__ __aicore__ void f(GM_ADDR a) {}", []),
        ('// extern "C" __global__ __aicore__ void f(GM_ADDR a) {}', []),
        ('#define K(n) extern "C" __global__ \\\n  __aicore__ void n(GM_ADDR a) {}\nint x;', []),
        (
            'extern "C" __global__ __aicore__ void f(GM_ADDR a) {}\nextern "C" __global__ __aicore__ void g(GM_ADDR a, GM_ADDR b) {}',
            [("f", 1, True), ("g", 2, True)],
        ),
    ],
)
def test_kernels_are_found(text, found):
    assert [tuple(entry) for entry in source_parser.entries(text)] == found


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("KernelCustom", "kernel_custom"),
        ("AbcAAc", "abc_a_ac"),
        ("Pooling1dCustom", "pooling1d_custom"),
        ("TopKV3", "top_kv3"),
    ],
)
def test_the_kernel_is_called_after_the_operator(operator, name):
    assert source_parser.snake(operator) == name


def test_tiling_classes_are_found_in_their_namespaces():
    text = "namespace a { namespace b { struct X {}; REGISTER_TILING_DATA_CLASS(One, OneData) } REGISTER_TILING_DATA_CLASS(Two, TwoData) }"
    assert source_parser.tiling_class([text], "One") == "a::b::OneData"
    assert source_parser.tiling_class([text], "Two") == "a::TwoData"
    assert source_parser.tiling_class([text], "Three") == "a::b::OneData"
    assert source_parser.tiling_class(["REGISTER_TILING_DEFAULT(Plain);"], "Three") == "Plain"
    assert source_parser.tiling_class(["// REGISTER_TILING_DATA_CLASS(One, OneData)"], "One") == ""


def test_types_are_those_of_the_column_that_fits():
    def with_types(dtype):
        tensors = tuple(tensor.model_copy(update={"dtype": dtype}) for tensor in SIGNATURE.params)
        changed = {"params": tensors, "inputs": (SIGNATURE.inputs[0].model_copy(update={"dtype": dtype}),)}
        signature = SIGNATURE.model_copy(update=changed | {"outputs": (SIGNATURE.outputs[0].model_copy(update={"dtype": dtype}),)})
        return read(ours("DataType({ge::DT_FLOAT})", "DataType({ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_BF16})"), signature).dtypes["OUT"]

    assert [with_types(dtype) for dtype in ("float16", "float32", "bfloat16", "int32")] == ["half", "float", "bfloat16_t", "half"]


# ---- folders


def test_a_folder_says_what_is_what():
    project = read(FOLDER, SIGNATURE)
    assert (project.op, project.entry, project.parameters) == ("GatedScaleCustom", "gated_scale_custom", 6)
    assert project.kernel == "op_kernel/gated_scale_custom.cpp"
    assert project.hosts == ("op_host/gated_scale_custom.cpp",)
    assert project.header == "op_host/gated_scale_custom_tiling.h"
    assert project.tiling.startswith("optiling::")


def test_of_several_kernels_the_operators_own_is_taken():
    more = FOLDER | {"op_kernel/a_first.cpp": 'extern "C" __global__ __aicore__ void a_first(GM_ADDR a) {}'}
    assert read(more, SIGNATURE).entry == "gated_scale_custom"


def test_definition_tiling_and_shapes_may_be_files_of_their_own():
    host = FOLDER["op_host/gated_scale_custom.cpp"]
    at = host.index("namespace ops")
    parts = {"op_host/gated_def.cpp": '#include "register/op_def_registry.h"\n' + host[at:], "op_host/gated_tiling.cpp": host[:at]}
    project = read({name: text for name, text in FOLDER.items() if name != "op_host/gated_scale_custom.cpp"} | parts, SIGNATURE)
    assert project.hosts == ("op_host/gated_def.cpp", "op_host/gated_tiling.cpp")


def test_functions_that_call_operators_on_the_device_are_left_out():
    more = FOLDER | {"op_host/aclnn_gated.cpp": '#include "opdev/op_log.h"\nvoid f(gert::TilingContext*);\n'}
    assert read(more, SIGNATURE).hosts == read(FOLDER, SIGNATURE).hosts


def test_a_folder_that_lacks_a_side():
    kernel = {name: text for name, text in FOLDER.items() if name.startswith("op_kernel")}
    host = {name: text for name, text in FOLDER.items() if name.startswith("op_host")}
    assert refused(kernel) == ("no_code", "no operator: a host file must define a class with OpDef and name it in OP_ADD")
    assert refused(host)[0] == "no_code"
    renamed = {name: text.replace("void gated_scale_custom(", "void gated(") for name, text in FOLDER.items()}
    assert refused(renamed) == ("symbol", "the kernel of GatedScaleCustom must be called gated_scale_custom; there is gated")


# ---- six parts


def test_six_parts():
    project = read({"kernel.txt": SIX}, SIGNATURE)
    assert project.bind
    assert project.function in bound_functions(project.bind)
    assert project.call[:3] == (("tensor", 0), ("tensor", 1), ("tensor", 2))
    assert source_parser.snake(project.op) == project.entry


def test_the_fence_is_optional_and_other_names_are_left_alone():
    plain = read({"kernel.txt": SIX}, SIGNATURE)
    assert read({"any.txt": f"Here it is.\n```python\n{SIX}\nnotes = open('x')\n```\nDone."}, SIGNATURE) == plain
    assert read({"any.txt": f"```py\n{SIX}"}, SIGNATURE) == plain


def test_nothing_of_the_text_is_run(tmp_path):
    evil = SIX + f"\nopen({str(tmp_path / 'was-run')!r}, 'w')\n"
    read({"kernel.txt": evil}, SIGNATURE)
    assert not (tmp_path / "was-run").exists()
    reason, detail = refused({"kernel.txt": re.sub(r"model_src\s*=", "model_src = __import__('os').name +", SIX)})
    assert (reason, "nothing in the text is run" in detail) == ("no_code", True)


def test_parts_that_are_missing_are_named():
    reason, detail = refused({"kernel.txt": SIX.replace("kernel_src", "kernel_text").replace("python_bind_src", "bind")})
    assert (reason, "lacks kernel_src, python_bind_src" in detail) == ("no_code", True)
    assert refused({"kernel.txt": "not Python at all ("})[0] == "no_code"


def test_an_evaluation_in_place_of_a_model_calls_with_everything_in_order():
    text = re.sub(r"model_src\s*=.*", "eval_src = 'pass'\n", SIX, flags=re.DOTALL)
    signature = SIGNATURE.model_copy(update={"inputs": (*SIGNATURE.inputs, *SIGNATURE.params), "params": ()})
    project = read({"kernel.txt": text}, signature)
    assert project.call[:3] == (("tensor", 0), ("tensor", 1), ("tensor", 2))


BIND = """
at::Tensor one(const at::Tensor& x, const c10::optional<at::Tensor>& bias, int64_t n, double eps, bool flag) { return x; }
static std::vector<at::Tensor> two(at::Tensor x, c10::IntArrayRef sizes) { return {x}; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("fn", &one, "text");
  m.def("other", two);
  m.def("third", [](const at::Tensor& x, float y) { return x; });
}
"""


@pytest.mark.parametrize(
    ("held", "asked", "order"),
    [
        (("bias", "conv_weight", "conv_bias"), ("x", "weight", "conv_bias_opt", "bias"), [0, 2, 3, 1]),
        (("multiplier", "conv_weight", "conv_bias"), ("x", "weight", "bias_opt", "multiplier"), [0, 2, 3, 1]),
        (("sum_tensor", "conv_weight", "conv_bias"), ("x", "weight", "bias_opt", "sum_tensor"), [0, 2, 3, 1]),
        (("bias", "conv_weight", "norm_weight"), ("x", "weight", "gamma", "bias"), [0, 1, 2, 3]),
    ],
)
def test_what_the_module_holds_is_passed_by_name_where_all_names_fit(held, asked, order):
    tensor = SIGNATURE.params[0]
    params = tuple(tensor.model_copy(update={"name": name}) for name in held)
    signature = SIGNATURE.model_copy(update={"inputs": SIGNATURE.inputs[:1], "params": params, "scalars": ()})
    bound = Bound("run", tuple(Parameter("tensor", False, name) for name in asked))
    assert [index for _, index in passed_in_order(bound, signature)] == order


def test_bound_functions_are_read():
    found = bound_functions(BIND)
    assert [parameter.kind for parameter in found["fn"].parameters] == ["tensor", "tensor", "int", "float", "bool"]
    assert found["fn"].parameters[1] == Parameter("tensor", True, "bias")
    assert [parameter.kind for parameter in found["other"].parameters] == ["tensor", "ints"]
    assert [parameter.kind for parameter in found["third"].parameters] == ["tensor", "float"]
    assert bound_functions("int x;") == {}


CALLED = Signature(
    inputs=(Tensor(name="x", dtype="float32", shape=(4,)), Tensor(name="b", dtype="float32", shape=(4,))),
    params=(Tensor(name="conv_weight", dtype="float32", shape=(4,)),),
    scalars=(
        ScalarArgument(name="dim", kind="int", value=1),
        ScalarArgument(name="eps", kind="float", value=0.5),
        ScalarArgument(name="flag", kind="bool", value=1),
    ),
    outputs=(Tensor(name="out", dtype="float32", shape=(4,)),),
)
HELD = "y = custom_ops_lib.fn(x, self.conv.weight, self.n, float(self.eps), flag)\nreturn y"
CAREFUL = """if not x.is_contiguous():
    x = x.contiguous()
assert x.dim() == 1
return self.ops.fn(x, b, 1, 2.0, True).contiguous()"""
EVERYTHING = (("tensor", 0), ("tensor", 1), ("number", 0), ("number", 1), ("number", 2))


def model(forward, init="", arguments="*inputs", head="import custom_ops_lib"):
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return f"""{head}
import torch
_FN = "fn"
class ModelNew(torch.nn.Module):
    def __init__(self, dim, eps=0.5, scale=2.0, mode="x"):
        super().__init__()
        {init or "pass"}
    def forward(self, {arguments}):
{body}
"""


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        (model("return custom_ops_lib.fn(*inputs)"), EVERYTHING),
        (model("fn = getattr(custom_ops_lib, _FN)\nreturn fn(*inputs)"), EVERYTHING),
        (model("return ops.fn(*inputs)", head="import custom_ops_lib as ops"), EVERYTHING),
        (model("return fn(*inputs)", head="from custom_ops_lib import fn"), EVERYTHING),
        (model("with torch.no_grad():\n    return custom_ops_lib.fn(*[t.contiguous() for t in inputs])"), EVERYTHING),
        (
            model('"""Doc."""\nx = x.contiguous()\nreturn custom_ops_lib.fn(x, b.to("npu"), 3, 0.25, True)', arguments="x, b"),
            (("tensor", 0), ("tensor", 1), ("int", 3), ("float", 0.25), ("bool", True)),
        ),
        (
            model("return custom_ops_lib.fn(first, None, int(-1), self.scale, flag=False)", "self.scale = scale", "first, second"),
            (("tensor", 0), ("absent",), ("int", -1), ("float", 2.0), ("bool", False)),
        ),
        (
            model(HELD, "self.n = dim; self.eps = eps", "x, b, flag"),
            (("tensor", 0), ("tensor", 2), ("number", 0), ("number", 1), ("number", 2)),
        ),
        (model(CAREFUL, "self.ops = custom_ops_lib", "x, b"), (("tensor", 0), ("tensor", 1), ("int", 1), ("float", 2.0), ("bool", True))),
    ],
)
def test_a_models_call_is_read(text, passed):
    assert model_call(text, bound_functions(BIND), CALLED) == Call("fn", passed)


@pytest.mark.parametrize(
    ("forward", "line"),
    [
        ("return torch.relu(custom_ops_lib.fn(*inputs))", "return torch.relu(custom_ops_lib.fn(*inputs))"),
        ("x = inputs[0] + 1\nreturn custom_ops_lib.fn(x, None, 1, 2.0, True)", "x = inputs[0] + 1"),
        ("return custom_ops_lib.fn(torch.zeros(4), None, 1, 2.0, True)", "torch.zeros(4)"),
        ("for t in inputs:\n    pass\nreturn custom_ops_lib.fn(*inputs)", "for t in inputs:"),
        ("return inputs[0]", "return inputs[0]"),
        ("if torch.rand(1) > 0:\n    return custom_ops_lib.fn(*inputs)\nreturn custom_ops_lib.fn(*inputs)", "if torch.rand(1) > 0:"),
    ],
)
def test_a_model_that_does_more_is_refused(forward, line):
    with pytest.raises(CandidateError) as caught:
        model_call(model(forward), bound_functions(BIND), CALLED)
    assert (caught.value.reason, caught.value.detail) == ("unsupported", f"model_src does more than call the operator: {line}")


def test_calls_that_cannot_fit():
    functions = bound_functions(BIND)
    cases = {
        "missing, and the bind defines fn": model("return custom_ops_lib.missing(*inputs)"),
        "takes 1 tensors, and forward is given 2": model("return custom_ops_lib.third(*inputs)"),
    }
    for said, text in cases.items():
        with pytest.raises(CandidateError) as caught:
            model_call(text, functions, CALLED)
        assert (caught.value.reason, said in caught.value.detail) == ("symbol", True), caught.value.detail
    with pytest.raises(CandidateError, match="no call of the operator"):
        model_call(model("pass"), functions, CALLED)


def test_an_optional_tensor_that_is_not_there_is_absent():
    one = CALLED.model_copy(update={"inputs": CALLED.inputs[:1], "params": ()})
    found = model_call(model("return custom_ops_lib.fn(*inputs)"), bound_functions(BIND), one)
    assert found.passed[:2] == (("tensor", 0), ("absent",))


@pytest.mark.timeout(20)
def test_looking_ends_whatever_the_text():
    chain = 'this->Input("x")' + ".a((" * 20000
    kernel = "__global__ " * 2000 + "a " * 20000
    assert source_parser.definition([chain]).inputs == (source_parser.Tensor("x", ()),)
    assert source_parser.entries(kernel) == []
    deep = model("return custom_ops_lib.fn(x" + ".contiguous()" * 20000 + ")", arguments="x")
    with pytest.raises(CandidateError):
        model_call(deep, bound_functions(BIND), CALLED)
    assert refused({"kernel.txt": "a = " + "(" * 5000})[0] == "no_code"


def test_projects_are_values():
    project = read({"kernel.asc": OURS}, SIGNATURE)
    assert project == read({"kernel.asc": OURS}, SIGNATURE)
    assert project != replace(project, op="Other")
