"""How kernels are written that CANN takes: files beside the operator, launches of their own, macros, odd characters in comments."""

from dataclasses import replace

from test_ascendc_project import FOLDER, SIGNATURE

from evokernel.backends.ascendc.build import for_gcc, own_name, told_types
from evokernel.backends.ascendc.project import read
from evokernel.backends.ascendc.screen import findings

KERNEL = """extern "C" __global__ [aicore] void sqrt(GM_ADDR x) {
  float y = sqrt(2.0f);
}
void run() {
  sqrt<<<8, nullptr,
    stream>>>(x);
  aclrtSynchronizeStream(stream);
}
// sqrt<<<1, nullptr, stream>>>(x);
"""


def test_files_that_are_no_part_of_the_operator_are_left_aside():
    shapes = '#include "infershape_elewise_util.h"\nIMPL_OP_INFERSHAPE(GatedScaleCustom).InferShape(Ops::InferShape4Elewise);\n'
    project = read(FOLDER | {"op_host/gated_infershape.cpp": shapes, "op_host/gated_l0.cpp": '#include "opdev/op_dfx.h"\n'}, SIGNATURE)
    assert project.files.keys() == read(FOLDER, SIGNATURE).files.keys()
    assert project.hosts == ("op_host/gated_scale_custom.cpp",)


def test_what_only_canns_compiler_takes():
    made = for_gcc(KERNEL, "sqrt")
    assert made.count("\n") == KERNEL.count("\n")
    assert "void sqrt_kernel(GM_ADDR x)" in made
    assert "y = sqrt(2.0f)" in made
    assert "void run() { AscendC::Trap(); " in made
    assert "aclrtSynchronizeStream" not in made
    assert (own_name("sqrt"), own_name("sqrt_custom")) == ("sqrt_kernel", "sqrt_custom")


def test_types_are_told_as_numbers_where_a_kernel_asks():
    project = read(FOLDER, SIGNATURE)
    assert all(option.startswith("-DDTYPE_") for option in told_types(project))
    asking = {project.kernel: "#if ORIG_DTYPE_X == DT_BF16 && FORMAT_X == FORMAT_ND\n#endif"}
    told = told_types(replace(project, files=project.files | asking, dtypes={"X": "half"}))
    assert {"-DDTYPE_X=half", "-DORIG_DTYPE_X=DT_FLOAT16", "-DDT_BF16=27", "-DFORMAT_X=FORMAT_ND"} <= set(told)


def test_what_the_screen_lets_through():
    harmless = '/* licence \x08 */\n#include <register/op_impl_registry.h>\n#include "iostream"\n#include <chrono>\nint one = 1;\n'
    assert list(findings({"op_host/a.cpp": harmless}, ("op_host/a.cpp",))) == []
    for refused in ("int one\x08 = 1;\n", "#include <sys/stat.h>\n", "auto now = std::chrono::system_clock::now();\n"):
        assert list(findings({"op_host/a.cpp": refused}, ("op_host/a.cpp",)))
