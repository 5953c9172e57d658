"""Parsing of candidates in their three formats, and the messages for invalid ones."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from quick_builds import quick_builds

from evokernel.backends import ascendc
from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.bindings import BoundFunction, Parameter, parse_bound_functions
from evokernel.backends.ascendc.build import build
from evokernel.backends.ascendc.model_call import parse_model_call
from evokernel.backends.ascendc.model_values import OperatorCall, positional_arguments
from evokernel.backends.ascendc.project_parser import parse_project
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


def parse_error_of(files, signature=SIGNATURE):
    with pytest.raises(CandidateError) as caught:
        parse_project(files, signature)
    return caught.value.reason, caught.value.detail


def single_file_with(old="", new=""):
    assert old in OURS
    return {"kernel.asc": OURS.replace(old, new)}


# ---- one file in three parts


def test_single_file_has_three_parts():
    project = parse_project({"kernel.asc": OURS}, SIGNATURE)
    assert (project.op, project.entry, project.parameter_count) == ("KernelCustom", "kernel_custom", 6)
    assert list(project.files) == ["tiling.h", "op_host.cpp", "op_kernel.cpp"]
    assert (project.kernel_file, project.host_files, project.tiling_header) == ("op_kernel.cpp", ("op_host.cpp",), "tiling.h")
    assert project.tiling_struct == "optiling::KernelCustomTilingData"
    assert project.dtypes == {"X": "float", "SCALE": "float", "SHIFT": "float", "OUT": "float"}
    assert (project.bind_source, project.bound_function, project.call_arguments) == ("", "", ())
    assert "".join(re.findall(r"// file: .*\n", OURS)) == "// file: tiling.h\n// file: op_host.cpp\n// file: op_kernel.cpp\n"
    assert sum(map(len, project.files.values())) == len(re.sub(r"// file: .*\n", "", OURS))


def test_included_tiling_header_is_not_added_again():
    project = parse_project(
        single_file_with('#include "kernel_operator.h"', '#include "kernel_operator.h"\n#include "tiling.h"'), SIGNATURE
    )
    assert project.tiling_header == ""


def test_a_tiling_class_in_the_host_source_reaches_the_kernel():
    found = parse_project(single_file_with(), SIGNATURE).files
    moved = found["op_host.cpp"].replace('#include "tiling.h"', '#include "register/tilingdata_base.h"\n' + found["tiling.h"])
    text = f"// file: tiling.h\n// nothing\n// file: op_host.cpp\n{moved}// file: op_kernel.cpp\n{found['op_kernel.cpp']}"
    project = parse_project({"kernel.asc": text}, SIGNATURE)
    assert project.tiling_header == "tiling_structs.h"
    assert "BEGIN_TILING_DATA_DEF(KernelCustomTilingData)" in project.files["tiling_structs.h"]
    assert "namespace optiling {" in project.files["tiling_structs.h"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no file"),
        ({"kernel.asc": " \n"}, "is empty"),
        ({"kernel.asc": "int main() {}"}, "tiling.h, op_host.cpp, op_kernel.cpp missing"),
        (single_file_with("// file: op_host.cpp", ""), "op_host.cpp missing"),
        (single_file_with("// file: op_host.cpp", "// file: tiling.h"), "two parts have the name tiling.h"),
        (single_file_with("// file: tiling.h", "// file: ../tiling.h"), "../tiling.h is not a valid name"),
    ],
)
def test_missing_parts_are_refused(files, said):
    reason, detail = parse_error_of(files)
    assert (reason, said in detail) == ("no_code", True), detail
    assert "`// file: tiling.h`, `// file: op_host.cpp`, `// file: op_kernel.cpp`" in detail
    assert "\n" not in detail


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("OP_ADD(KernelCustom)", "OP_ADD(Other)", "OP_ADD names Other"),
        ("OP_ADD(KernelCustom);", "", "OP_ADD names no operator"),
        ("OP_ADD(KernelCustom);", "// OP_ADD(KernelCustom);", "OP_ADD names no operator"),
        ("void kernel_custom(", "void other(", "The file defines other instead."),
        ("GM_ADDR shift, ", "", "parameters, not 6"),
        ('extern "C" __global__', "__global__", 'The definition lacks extern "C".'),
        ("__global__ __aicore__ void", "__aicore__ void", "no function with __global__"),
    ],
)
def test_wrong_names_and_parameters_are_refused(old, new, said):
    reason, detail = parse_error_of(single_file_with(old, new))
    assert (reason, said in detail) == ("symbol", True), detail


def test_error_shows_the_expected_declaration():
    _, detail = parse_error_of(single_file_with("void kernel_custom(", "void other("))
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
    assert [tuple(entry) for entry in source_parser.find_kernel_entries(text)] == found


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("KernelCustom", "kernel_custom"),
        ("AbcAAc", "abc_a_ac"),
        ("Pooling1dCustom", "pooling1d_custom"),
        ("TopKV3", "top_kv3"),
    ],
)
def test_kernel_name_follows_from_the_operator(operator, name):
    assert source_parser.to_snake_case(operator) == name


def test_tiling_classes_are_found_in_their_namespaces():
    text = "namespace a { namespace b { struct X {}; REGISTER_TILING_DATA_CLASS(One, OneData) } REGISTER_TILING_DATA_CLASS(Two, TwoData) }"
    assert source_parser.find_tiling_class([text], "One") == "a::b::OneData"
    assert source_parser.find_tiling_class([text], "Two") == "a::TwoData"
    assert source_parser.find_tiling_class([text], "Three") == "a::b::OneData"
    assert source_parser.find_tiling_class(["REGISTER_TILING_DEFAULT(Plain);"], "Three") == "Plain"
    assert source_parser.find_tiling_class(["// REGISTER_TILING_DATA_CLASS(One, OneData)"], "One") == ""


def test_types_come_from_the_matching_column():
    def with_types(dtype):
        tensors = tuple(tensor.model_copy(update={"dtype": dtype}) for tensor in SIGNATURE.params)
        changed = {"params": tensors, "inputs": (SIGNATURE.inputs[0].model_copy(update={"dtype": dtype}),)}
        signature = SIGNATURE.model_copy(update=changed | {"outputs": (SIGNATURE.outputs[0].model_copy(update={"dtype": dtype}),)})
        return parse_project(
            single_file_with("DataType({ge::DT_FLOAT})", "DataType({ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_BF16})"), signature
        ).dtypes["OUT"]

    assert [with_types(dtype) for dtype in ("float16", "float32", "bfloat16", "int32")] == ["half", "float", "bfloat16_t", "half"]


# ---- folders


def test_roles_of_files_in_a_folder_are_recognised():
    project = parse_project(FOLDER, SIGNATURE)
    assert (project.op, project.entry, project.parameter_count) == ("GatedScaleCustom", "gated_scale_custom", 6)
    assert project.kernel_file == "op_kernel/gated_scale_custom.cpp"
    assert project.host_files == ("op_host/gated_scale_custom.cpp",)
    assert project.tiling_header == "op_host/gated_scale_custom_tiling.h"
    assert project.tiling_struct.startswith("optiling::")


def test_matching_kernel_is_selected_of_several():
    more = FOLDER | {"op_kernel/a_first.cpp": 'extern "C" __global__ __aicore__ void a_first(GM_ADDR a) {}'}
    assert parse_project(more, SIGNATURE).entry == "gated_scale_custom"


def test_definition_tiling_and_shapes_may_be_separate_files():
    host = FOLDER["op_host/gated_scale_custom.cpp"]
    at = host.index("namespace ops")
    parts = {"op_host/gated_def.cpp": '#include "register/op_def_registry.h"\n' + host[at:], "op_host/gated_tiling.cpp": host[:at]}
    project = parse_project({name: text for name, text in FOLDER.items() if name != "op_host/gated_scale_custom.cpp"} | parts, SIGNATURE)
    assert project.host_files == ("op_host/gated_def.cpp", "op_host/gated_tiling.cpp")


TILING_TEMPLATE = {
    "op_host/gated_tiling.h": """#pragma once
#include "gated_scale_custom_tiling.h"
#include "tiling/tiling_templates_registry.h"
namespace optiling {
class GatedTiling : public TilingBaseClass {
 public:
  explicit GatedTiling(gert::TilingContext* context) : TilingBaseClass(context) {}
  bool IsCapable() override { return true; }
  ge::graphStatus GetPlatformInfo() override { return ge::GRAPH_SUCCESS; }
  ge::graphStatus GetShapeAttrsInfo() override { return ge::GRAPH_SUCCESS; }
  ge::graphStatus DoOpTiling() override;
  ge::graphStatus DoLibApiTiling() override { return ge::GRAPH_SUCCESS; }
  uint64_t GetTilingKey() const override { return 0; }
  ge::graphStatus GetWorkspaceSize() override;
  ge::graphStatus PostTiling() override;
  GatedScaleCustomTilingData tiling;
};
}
""",
    "op_host/gated_methods.cpp": """#include "gated_tiling.h"
namespace optiling {
ge::graphStatus GatedTiling::DoOpTiling() {
  const gert::Shape shape = context_->GetInputShape(0)->GetStorageShape();
  uint32_t rows = shape.GetDim(0), share = (rows + 47) / 48;
  context_->SetBlockDim((rows + share - 1) / share);
  tiling.set_rows(rows);
  tiling.set_columns(shape.GetDim(1));
  tiling.set_share(share);
  tiling.set_slope(*context_->GetAttrs()->GetFloat(1));
  return ge::GRAPH_SUCCESS;
}
ge::graphStatus GatedTiling::GetWorkspaceSize() {
  context_->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}
ge::graphStatus GatedTiling::PostTiling() {
  tiling.SaveToBuffer(context_->GetRawTilingData()->GetData(), context_->GetRawTilingData()->GetCapacity());
  context_->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
}
""",
    "op_host/gated_template.cpp": """#include "gated_tiling.h"
namespace optiling {
REGISTER_TILING_TEMPLATE("GatedScaleCustom", GatedTiling, 1000);
}
""",
}


def folder_with_template() -> dict[str, str]:
    """The folder with its tiling function in a tiling class: methods in one file, the registration in another."""
    host = FOLDER["op_host/gated_scale_custom.cpp"]
    function = (
        "namespace optiling {\nstatic ge::graphStatus TilingFunc(gert::TilingContext* context) {\n"
        "  return TilingRegistry::GetInstance().DoTilingImpl(context);\n}\n}\n"
    )
    include = '#include "register/op_def_registry.h"\n#include "tiling/tiling_templates_registry.h"\n'
    return FOLDER | TILING_TEMPLATE | {"op_host/gated_scale_custom.cpp": include + function + host[host.index("namespace ops") :]}


def test_host_sources_with_only_methods_or_a_registration_are_host_files():
    project = parse_project(folder_with_template(), SIGNATURE)
    assert project.host_files == ("op_host/gated_methods.cpp", "op_host/gated_scale_custom.cpp", "op_host/gated_template.cpp")


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_tiling_class_in_several_files_builds(tmp_path):
    with quick_builds():
        build(parse_project(folder_with_template(), SIGNATURE), tmp_path)


def test_included_sources_and_drivers_are_no_host_files():
    more = folder_with_template() | {
        "op_host/gated_methods.cpp": '#include "gated_parts.cpp"\n',
        "op_host/gated_parts.cpp": TILING_TEMPLATE["op_host/gated_methods.cpp"],
        "main.cpp": "int main() { return 0; }\n",
    }
    hosts = parse_project(more, SIGNATURE).host_files
    assert "main.cpp" not in hosts
    assert "op_host/gated_parts.cpp" not in hosts


def test_launcher_sources_are_ignored():
    more = FOLDER | {"op_host/aclnn_gated.cpp": '#include "opdev/op_log.h"\nvoid f(gert::TilingContext*);\n'}
    assert parse_project(more, SIGNATURE).host_files == parse_project(FOLDER, SIGNATURE).host_files


def test_folder_without_kernel_or_operator_is_refused():
    kernel = {name: text for name, text in FOLDER.items() if name.startswith("op_kernel")}
    host = {name: text for name, text in FOLDER.items() if name.startswith("op_host")}
    assert parse_error_of(kernel) == (
        "no_code",
        "no file has an operator: define a class derived from OpDef in a host file and pass it to OP_ADD",
    )
    assert parse_error_of(host)[0] == "no_code"
    renamed = {name: text.replace("void gated_scale_custom(", "void gated(") for name, text in FOLDER.items()}
    assert parse_error_of(renamed) == (
        "symbol",
        "the kernel function of GatedScaleCustom must have the name gated_scale_custom; the files define gated",
    )


# ---- six parts


def test_six_parts_are_parsed():
    project = parse_project({"kernel.txt": SIX}, SIGNATURE)
    assert project.bind_source
    assert project.bound_function in parse_bound_functions(project.bind_source)
    assert project.call_arguments[:3] == (("tensor", 0), ("tensor", 1), ("tensor", 2))
    assert source_parser.to_snake_case(project.op) == project.entry


def test_code_fence_is_optional_and_other_names_are_ignored():
    plain = parse_project({"kernel.txt": SIX}, SIGNATURE)
    assert parse_project({"any.txt": f"Here it is.\n```python\n{SIX}\nnotes = open('x')\n```\nDone."}, SIGNATURE) == plain
    assert parse_project({"any.txt": f"```py\n{SIX}"}, SIGNATURE) == plain


def test_text_is_not_executed(tmp_path):
    evil = SIX + f"\nopen({str(tmp_path / 'was-run')!r}, 'w')\n"
    parse_project({"kernel.txt": evil}, SIGNATURE)
    assert not (tmp_path / "was-run").exists()
    reason, detail = parse_error_of({"kernel.txt": re.sub(r"model_src\s*=", "model_src = __import__('os').name +", SIX)})
    assert (reason, "because the text is not executed" in detail) == ("no_code", True)


def test_missing_parts_of_six_are_named():
    reason, detail = parse_error_of({"kernel.txt": SIX.replace("kernel_src", "kernel_text").replace("python_bind_src", "bind")})
    assert (reason, "lacks kernel_src, python_bind_src" in detail) == ("no_code", True)
    assert parse_error_of({"kernel.txt": "not Python at all ("})[0] == "no_code"


def test_kernel_of_six_parts_cannot_include_the_header_of_the_host():
    header = re.search(r'#include "(\w+_tiling\.h)"', SIX)[1]
    start = SIX.index("kernel_src")
    included = SIX[:start] + SIX[start:].replace('#include "kernel_operator.h"', f'#include "kernel_operator.h"\n#include "{header}"', 1)
    reason, detail = parse_error_of({"kernel.txt": included})
    assert reason == "compile_error"
    assert f"{header} file not found" in detail
    assert parse_project({"kernel.txt": included.replace(f'#include "{header}"', f'// #include "{header}"')}, SIGNATURE) is not None


def test_evaluation_source_calls_with_positional_arguments():
    text = re.sub(r"model_src\s*=.*", "eval_src = 'pass'\n", SIX, flags=re.DOTALL)
    signature = SIGNATURE.model_copy(update={"inputs": (*SIGNATURE.inputs, *SIGNATURE.params), "params": ()})
    project = parse_project({"kernel.txt": text}, signature)
    assert project.call_arguments[:3] == (("tensor", 0), ("tensor", 1), ("tensor", 2))


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
def test_module_tensors_are_passed_by_name_if_all_names_match(held, asked, order):
    tensor = SIGNATURE.params[0]
    params = tuple(tensor.model_copy(update={"name": name}) for name in held)
    signature = SIGNATURE.model_copy(update={"inputs": SIGNATURE.inputs[:1], "params": params, "scalars": ()})
    bound = BoundFunction("run", tuple(Parameter("tensor", False, name) for name in asked))
    assert [index for _, index in positional_arguments(bound, signature)] == order


def test_bound_functions_are_parsed():
    found = parse_bound_functions(BIND)
    assert [parameter.kind for parameter in found["fn"].parameters] == ["tensor", "tensor", "int", "float", "bool"]
    assert found["fn"].parameters[1] == Parameter("tensor", True, "bias")
    assert [parameter.kind for parameter in found["other"].parameters] == ["tensor", "ints"]
    assert [parameter.kind for parameter in found["third"].parameters] == ["tensor", "float"]
    assert parse_bound_functions("int x;") == {}


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
        (model("return custom_ops_lib.third(inputs[0], -1.0)"), (("tensor", 0), ("float", -1.0))),
        (model("return custom_ops_lib.fn(*inputs, 1, 2.0, True)"), (*EVERYTHING[:2], ("int", 1), ("float", 2.0), ("bool", True))),
        (model("x, b, dim = inputs\nreturn custom_ops_lib.fn(x, b, dim, 2.0, True)"), (*EVERYTHING[:3], ("float", 2.0), ("bool", True))),
        (
            model("n = x.shape[0]\nx = x.view(-1, n).transpose(0, 1).contiguous()\nreturn custom_ops_lib.third(x, 1.0)", arguments="x, b"),
            (
                ("tensor", 0, ("reshape", -1, ("size", ("tensor", 0), 0)), ("transpose", 0, 1), ("contiguous",)),
                ("float", 1.0),
            ),
        ),
        (
            model("return custom_ops_lib.third(torch.flatten(b).half().unsqueeze(-1), 1.0)", arguments="x, b"),
            (("tensor", 1, ("flatten", 0, -1), ("cast", "float16"), ("unsqueeze", -1)), ("float", 1.0)),
        ),
        (
            model("x = x.to(torch.float32).to('npu').float()\nreturn custom_ops_lib.third(x, x.size(0))", arguments="x, b"),
            (("tensor", 0), ("size", ("tensor", 0), 0)),
        ),
        (model(CAREFUL, "self.ops = custom_ops_lib", "x, b"), (("tensor", 0), ("tensor", 1), ("int", 1), ("float", 2.0), ("bool", True))),
    ],
)
def test_model_call_is_parsed(text, passed):
    call = parse_model_call(text, parse_bound_functions(BIND), CALLED)
    assert call == OperatorCall("third" if ".third(" in text else "fn", passed)


@pytest.mark.parametrize(
    ("forward", "line"),
    [
        ("return torch.relu(custom_ops_lib.fn(*inputs))", "return torch.relu(custom_ops_lib.fn(*inputs))"),
        ("x = inputs[0] + 1\nreturn custom_ops_lib.fn(x, None, 1, 2.0, True)", "x = inputs[0] + 1"),
        ("x = inputs[0].view(4) * 2\nreturn custom_ops_lib.third(x, 1.0)", "x = inputs[0].view(4) * 2"),
        ("x = inputs[0].softmax(-1)\nreturn custom_ops_lib.third(x, 1.0)", "x = inputs[0].softmax(-1)"),
        ("return custom_ops_lib.third(inputs[9], 1.0)", "inputs[9]"),
        ("return custom_ops_lib.fn(torch.zeros(4), None, 1, 2.0, True)", "torch.zeros(4)"),
        ("for t in inputs:\n    pass\nreturn custom_ops_lib.fn(*inputs)", "for t in inputs:"),
        ("return inputs[0]", "return inputs[0]"),
        ("if torch.rand(1) > 0:\n    return custom_ops_lib.fn(*inputs)\nreturn custom_ops_lib.fn(*inputs)", "if torch.rand(1) > 0:"),
    ],
)
def test_model_with_other_computation_is_refused(forward, line):
    with pytest.raises(CandidateError) as caught:
        parse_model_call(model(forward), parse_bound_functions(BIND), CALLED)
    assert (caught.value.reason, caught.value.detail) == (
        "unsupported",
        f"forward in model_src may only call the operator; move this into the kernel: {line}",
    )


def test_turned_tensor_must_be_contiguous():
    text = model("return custom_ops_lib.third(inputs[0].t(), 1.0)")
    with pytest.raises(CandidateError, match=r"write inputs\[0\].t\(\).contiguous\(\)"):
        parse_model_call(text, parse_bound_functions(BIND), CALLED)


def test_calls_with_wrong_arguments_are_refused():
    functions = parse_bound_functions(BIND)
    cases = {
        "missing, but the binding defines only fn": model("return custom_ops_lib.missing(*inputs)"),
        "takes 1 tensors, but forward has 2": model("return custom_ops_lib.third(*inputs)"),
    }
    for said, text in cases.items():
        with pytest.raises(CandidateError) as caught:
            parse_model_call(text, functions, CALLED)
        assert (caught.value.reason, said in caught.value.detail) == ("symbol", True), caught.value.detail
    with pytest.raises(CandidateError, match="does not return a call of the operator"):
        parse_model_call(model("pass"), functions, CALLED)


def test_missing_optional_tensor_is_absent():
    one = CALLED.model_copy(update={"inputs": CALLED.inputs[:1], "params": ()})
    found = parse_model_call(model("return custom_ops_lib.fn(*inputs)"), parse_bound_functions(BIND), one)
    assert found.arguments[:2] == (("tensor", 0), ("absent",))


def test_omitted_numbers_have_the_defaults_of_the_binding():
    def functions(*described):
        definition = ", ".join(['m.def("scale", &scale', *described])
        return parse_bound_functions(
            "at::Tensor scale(const at::Tensor& x, double low = 7.0, int64_t axis = 7) { return x; }\n"
            f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ {definition}, "help"); }}'
        )

    signature = SIGNATURE.model_copy(update={"params": (), "scalars": ()})
    model = "import custom_ops_lib\nclass ModelNew:\n def forward(self, *inputs):\n  return custom_ops_lib.scale({})"
    bound = functions('py::arg("x")', 'py::arg("low") = -1.5f', 'py::arg("axis") = -1')
    expected = OperatorCall("scale", (("tensor", 0), ("float", -1.5), ("int", -1)))
    assert parse_model_call(model.format("*inputs"), bound, signature) == expected
    assert parse_model_call(model.replace("*inputs", "x").format("x"), bound, signature) == expected
    with pytest.raises(CandidateError, match="takes more numbers"):  # Python does not see defaults of C++
        parse_model_call(model.format("*inputs"), functions(), signature)


@pytest.mark.timeout(20)
def test_parsing_ends_on_hostile_input():
    chain = 'this->Input("x")' + ".a((" * 20000
    kernel = "__global__ " * 2000 + "a " * 20000
    assert source_parser.parse_op_definition([chain]).inputs == (source_parser.OpDefTensor("x", ()),)
    assert source_parser.find_kernel_entries(kernel) == []
    deep = model("return custom_ops_lib.fn(x" + ".contiguous()" * 20000 + ")", arguments="x")
    with pytest.raises(CandidateError):
        parse_model_call(deep, parse_bound_functions(BIND), CALLED)
    assert parse_error_of({"kernel.txt": "a = " + "(" * 5000})[0] == "no_code"


def test_projects_compare_by_value():
    project = parse_project({"kernel.asc": OURS}, SIGNATURE)
    assert project == parse_project({"kernel.asc": OURS}, SIGNATURE)
    assert project != replace(project, op="Other")
