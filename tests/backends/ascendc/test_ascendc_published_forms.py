"""Forms of published kernels that CANN accepts: additional files, own launches, macros, unusual characters in comments."""

from dataclasses import replace

from test_ascendc_project import FOLDER, SIGNATURE

from evokernel.backends.ascendc.build import dtype_macros, exported_entry_name, rewrite_for_gcc
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.backends.ascendc.screen import find_violations

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


def test_files_outside_the_operator_are_ignored():
    shapes = '#include "infershape_elewise_util.h"\nIMPL_OP_INFERSHAPE(GatedScaleCustom).InferShape(Ops::InferShape4Elewise);\n'
    project = parse_project(
        FOLDER | {"op_host/gated_infershape.cpp": shapes, "op_host/gated_l0.cpp": '#include "opdev/op_dfx.h"\n'}, SIGNATURE
    )
    assert project.files.keys() == parse_project(FOLDER, SIGNATURE).files.keys()
    assert project.host_files == ("op_host/gated_scale_custom.cpp",)


def test_constructs_of_canns_compiler_are_rewritten():
    made = rewrite_for_gcc(KERNEL, "sqrt")
    assert made.count("\n") == KERNEL.count("\n")
    assert "void sqrt_kernel(GM_ADDR x)" in made
    assert "y = sqrt(2.0f)" in made
    assert "void run() { AscendC::Trap(); " in made
    assert "aclrtSynchronizeStream" not in made
    assert (exported_entry_name("sqrt"), exported_entry_name("sqrt_custom")) == ("sqrt_kernel", "sqrt_custom")


def test_dtype_numbers_are_defined_if_the_kernel_tests_them():
    project = parse_project(FOLDER, SIGNATURE)
    assert all(option.startswith("-DDTYPE_") for option in dtype_macros(project))
    asking = {project.kernel_file: "#if ORIG_DTYPE_X == DT_BF16 && FORMAT_X == FORMAT_ND\n#endif"}
    macros = dtype_macros(replace(project, files=project.files | asking, dtypes={"X": "half"}))
    assert {"-DDTYPE_X=half", "-DORIG_DTYPE_X=DT_FLOAT16", "-DDT_BF16=27", "-DFORMAT_X=FORMAT_ND"} <= set(macros)


def test_screen_accepts_published_forms():
    harmless = '/* licence \x08 */\n#include <register/op_impl_registry.h>\n#include "iostream"\n#include <chrono>\nint one = 1;\n'
    assert list(find_violations({"op_host/a.cpp": harmless}, ("op_host/a.cpp",))) == []
    for refused in ("int one\x08 = 1;\n", "#include <sys/stat.h>\n", "auto now = std::chrono::system_clock::now();\n"):
        assert list(find_violations({"op_host/a.cpp": refused}, ("op_host/a.cpp",)))
