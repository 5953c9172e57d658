"""The host side of the simulator: definitions, tiling and bindings; a separate operator or function violates each rule."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.backends.ascendc.build import build
from evokernel.backends.ascendc.project import Project
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.errors import CandidateError

HERE = Path(__file__).parent
SOURCES = HERE / "host_side"
POISON = -12345.0
X, Y = [[4, 3], "float32"], [[8], "float32"]
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def run(op, given=(X,), attributes=(), outputs=(Y,)):
    return {"op": op, "given": list(given), "attributes": list(attributes), "outputs": list(outputs)}


def call(function, given=(X,), outputs=(Y,)):
    return {"function": function, "given": list(given), "outputs": list(outputs)}


CALLS = {
    "works": run("CopyCustom", attributes=(3, 0.5, True)),
    "defaults": run("CopyCustom", attributes=(3, None, None)),
    "half": run("CopyCustom", [[[4, 3], "float16"]], (3, 0.5, True), [[[16], "float16"]]),
    "parsed": run("ParsedCustom"),
    "values": run("ValuesCustom"),
    "no values": run("NoValuesCustom"),
    "asked null": run("AskedNullCustom"),
    "unknown": run("MissingCustom"),
    "other chip": run("OtherChipCustom"),
    "no tiling": run("NoTilingCustom"),
    "inputs": run("CopyCustom", (X, X), (3, 0.5, True)),
    "attributes": run("CopyCustom"),
    "required attribute": run("CopyCustom", attributes=(None, 0.5, True)),
    "attribute of another kind": run("CopyCustom", attributes=(0.5, 0.5, True)),
    "absent input": run("PlainCustom", (None,)),
    "outputs": run("CopyCustom", attributes=(3, 0.5, True), outputs=(Y, Y)),
    "type": run("PlainCustom", [[[4], "int32"]]),
    "types": run("PlainCustom", outputs=[[[8], "float16"]]),
    "fails": run("FailCustom"),
    "no blocks": run("NoBlocksCustom"),
    "many blocks": run("ManyBlocksCustom"),
    "no size": run("NoSizeCustom"),
    "odd size": run("OddSizeCustom"),
    "overflow": run("OverflowCustom"),
    "null": run("NullCustom"),
    "dimension": run("DimensionCustom"),
    "kernel": run("TwoInputsCustom", (X, X)),
    "bind": call("copy_custom", (X, 3, 0.5, X)),
    "bind's defaults": call("copy_custom", (X, 3)),
    "bind's integer for a float": call("copy_custom", (X, 3, 2)),
    "too few arguments": call("copy_custom", (X,)),
    "argument of another kind": call("copy_custom", (X, 0.5)),
    "check": call("copy_custom", ([[4], "float32"], 3)),
    "no function": call("missing"),
    "float attribute": call("float_attribute"),
    "too few operands": call("too_few"),
    "transposed": call("transposed"),
    "on the cpu": call("on_cpu"),
    "unwritten": call("unwritten"),
    "wrong shape": call("wrong_shape"),
    "wrong type": call("wrong_type"),
    "views": call("views"),
    "to the cpu": call("to_cpu"),
    "raises": call("raises"),
    "two": call("two", outputs=(Y, Y)),
    "two of one": call("two"),
    "lambda": call("by_lambda", (X, [[2, 4], "ints"])),
    "placed": run("PlacedCustom"),
    "lists": run("AttributesCustom", attributes=("sum", [[2, 3], "ints"], [[1.5, 2.5], "floats"], [[0, 1], "ints"])),
    "default lists": run("AttributesCustom"),
    "inferred": run("AttributesCustom", [[[3, 3], "float32"]], ("sum", [[2, 3], "ints"])),
    "list of lists": run("AttributesCustom", attributes=("sum", None, None, None, [[1], "ints"])),
}
BROKEN = {
    "unknown": ("E-OP-NAME", "MissingCustom"),
    "other chip": ("E-OP-SOC", 'AddConfig("ascend910b")'),
    "no tiling": ("E-TILING-FAIL", "SetTiling"),
    "inputs": ("E-OP-ARGS", "2 inputs, but its OpDef has 1 (x)"),
    "attributes": ("E-OP-ARGS", "0 attributes, but its OpDef has 3 (count, scale, flag)"),
    "required attribute": ("E-OP-ARGS", "'count'"),
    "attribute of another kind": ("E-OP-ARGS", "'count' of CopyCustom is an int"),
    "absent input": ("E-OP-ARGS", "'x' of PlainCustom is required"),
    "outputs": ("E-OP-ARGS", "2 outputs, but its OpDef has 1 (y)"),
    "type": ("E-OP-DTYPE", "DT_INT32, but its OpDef allows DT_FLOAT, DT_FLOAT16 (aclnn 161002)"),
    "types": ("E-OP-DTYPE", "x DT_FLOAT, y DT_FLOAT16"),
    "fails": ("E-TILING-FAIL", "aclnn 561002"),
    "no blocks": ("E-TILING-BLOCKS", "does not call SetBlockDim"),
    "many blocks": ("E-TILING-BLOCKS", "SetBlockDim(65536)"),
    "no size": ("E-TILING-SIZE", "does not call SetDataSize"),
    "odd size": ("E-TILING-SIZE", "SetDataSize(12), but CopyTilingData has 40 bytes"),
    "overflow": ("E-TILING-SIZE", "40 bytes do not fit into 8"),
    "null": ("E-TILING-NULL", "GetInputShape(3) returned null, because the index is out of range (inputs: 1)"),
    "dimension": ("E-TILING-DIM", "GetDim(4) is outside a shape with 2 dimensions"),
    "kernel": ("E-KERNEL-ARGS", "has 4 parameters, but needs 5: inputs 2 (x, bias), outputs 1 (y)"),
    "too few arguments": ("E-BIND-ARGS", "copy_custom(Tensor, int, float, Tensor?) is called with 1 arguments"),
    "argument of another kind": ("E-BIND-ARGS", "takes int, but gets a float"),
    "check": ("E-BIND-CHECK", "x must be 2D, has 1"),
    "no function": ("E-BIND-ARGS", "the model calls 'missing'"),
    "float attribute": ("E-BIND-TYPE", "'scale' of CopyCustom is a float: aclnn takes a double"),
    "too few operands": ("E-OP-ARGS", "passes 2 arguments, but its OpDef has inputs 1 (x), attributes 3"),
    "transposed": ("E-BIND-LAYOUT", "not contiguous"),
    "on the cpu": ("E-BIND-DEVICE", "on the CPU"),
    "wrong shape": ("E-BIND-RESULT", "Float [3, 3], but must be Float [8]"),
    "wrong type": ("E-BIND-RESULT", "Half [8], but must be Float [8]"),
    "to the cpu": ("E-BIND-CPU", "10000 elements"),
    "raises": ("E-HOST-RAISED", "out of luck"),
    "list of lists": ("E-OP-ARGS", "'pairs' of AttributesCustom is a list of lists"),
    "two of one": ("E-BIND-RESULT", "returns 2 tensors, but must return 1"),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All of it, built once."""
    folder = tmp_path_factory.mktemp("host")
    files = {path.name: path.read_text() for path in SOURCES.iterdir()}
    bind = files.pop("bind.cpp")
    tiling = "optiling::CopyTilingData"
    build(
        Project("CopyCustom", "copy_custom", 4, files, "kernel.cpp", ("operators.cpp", "graph.cpp"), "tiling.h", tiling, {}, bind), folder
    )
    return folder


def answers(library, level):
    """What became of every call."""
    command = [sys.executable, str(HERE / "host_calls.py"), str(library), str(level)]
    done = subprocess.run(command, input=json.dumps(list(CALLS.values())), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(CALLS, json.loads(done.stdout)))


@pytest.fixture(scope="module")
def strict(library):
    return answers(library, 2)


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", BROKEN)
def test_violation_is_reported_with_code_and_text(strict, name):
    code, text = BROKEN[name]
    assert (strict[name]["code"], text in strict[name]["text"]) == (code, True), strict[name]


def test_every_code_has_a_rule():
    import tomllib

    known = tomllib.loads((HERE.parents[2] / "src/evokernel/backends/ascendc/rules.toml").read_text())
    assert {code for code, _ in BROKEN.values()} <= set(known)


def test_valid_calls_succeed(strict):
    assert {name for name, answer in strict.items() if not answer["code"]} == set(CALLS) - set(BROKEN)


def test_kernel_reads_tiling_values_of_the_host(strict):
    assert strict["works"]["results"] == [[4, 0.5, 7, 9, 3, 48, -1, 40]]
    assert strict["defaults"]["results"] == [[4, 1.5, 7, 9, 3, 48, 1, 40]]
    assert strict["parsed"]["results"][0][1] == 24


def test_tiling_function_reads_values_of_declared_inputs(strict):
    assert strict["values"]["results"][0][1] == 5
    assert strict["no values"]["results"][0][1] == -1


@pytest.mark.slow(one_in=5)
def test_command_with_a_literal_is_refused_with_the_fix(tmp_path):
    """CANN's macro takes its arguments by reference."""
    files = {path.name: path.read_text() for path in SOURCES.iterdir()}
    bind = files.pop("bind.cpp").replace("x, count, scale, flag, y", "x, count, 2.0, flag, y", 1)
    tiling = "optiling::CopyTilingData"
    project = Project("CopyCustom", "copy_custom", 4, files, "kernel.cpp", ("operators.cpp",), "tiling.h", tiling, {}, bind)
    with pytest.raises(CandidateError, match="EXEC_NPU_CMD takes variables only") as caught:
        build(project, tmp_path)
    assert caught.value.reason == "compile_error"


def test_tiling_data_are_in_the_buffer_that_host_code_gives(strict):
    assert strict["placed"]["results"] == [[0, 6.5, 0, 0, 3, 0, 0, 40]]


def test_attributes_are_texts_and_lists(strict):
    assert strict["lists"]["results"][0][1] == 1000 + 5 + 4 + 100 + 60
    assert strict["default lists"]["results"][0][1] == 1 + 0.75 + 200 + 60


def test_functions_for_graphs_are_called_and_their_objections_are_noted(strict):
    notes = {name: [note[2] for note in strict[name]["report"]["notes"]] for name in ("lists", "default lists", "inferred")}
    assert notes["lists"] == []
    assert notes["default lists"] == ['the function of SetCheckSupport rejects this call of AttributesCustom: {"isSupported": "False", '
                                      '"reason": "only two steps"}']  # fmt: skip
    assert notes["inferred"] == ["the inference function of AttributesCustom gives output 0 the shape [6], but the call passes [8]"]


def test_launch_follows_the_tiling_function(strict):
    report = strict["works"]["report"]
    launched = report[-1] if isinstance(report, list) else report
    assert (launched["op"], launched["block_dim"], launched["tiling_key"], launched["workspace"]) == ("CopyCustom", 2, 5, 4096)
    assert launched["bytes"] == [48, 32]


def test_binding_passes_arguments_and_defaults(strict):
    [given], [default] = strict["bind"]["results"], strict["bind's defaults"]["results"]
    assert [given[0], given[1], given[6]] == [4, 0.5, -1]
    assert [default[0], default[1], default[6]] == [4, 0.25, 1]
    assert strict["bind's integer for a float"]["results"][0][1] == 2
    assert strict["lambda"]["results"] == [[2.5] * 8]
    assert strict["two"]["results"] == [[0.0] * 8, [1.0] * 8]


def test_unwritten_binding_results_stay_poisoned(strict):
    assert strict["unwritten"]["results"] == [[POISON] * 8]


def test_views_equal_torch_views(strict):
    # arange(12) as [4, 3]: transposed and flat 0 3 6 9 1 4 7 10 2 ..., from the second on, then [2, 2, 2] transposed
    flat = [3, 6, 9, 1, 4, 7, 10, 2]
    expected = [flat[4 * c + 2 * b + a] for a in range(2) for b in range(2) for c in range(2)]
    assert strict["views"]["results"] == [expected]


def test_hardware_level_does_not_check_types(library):
    """Violations that only the strict level refuses continue at the hardware level."""
    lenient = answers(library, 1)
    assert lenient["float attribute"]["code"] == ""
    assert lenient["float attribute"]["results"][0][1] == 0  # a float that aclnn reads as a double
    assert lenient["wrong shape"]["code"] == "E-BIND-RESULT"
