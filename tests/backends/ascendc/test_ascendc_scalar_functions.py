"""Scalar mathematics that CANN's compiler does not have is refused before compilation, with the function to use."""

import pytest

from evokernel.backends.ascendc.scalar_functions import check_scalar_functions
from evokernel.core.errors import CandidateError

KERNEL = "op_kernel.cpp"


def refusal_of(body: str, more: dict[str, str] | None = None) -> str:
    files = {KERNEL: f'#include "kernel_operator.h"\n#include "steps.h"\n{body}\n'} | (more or {})
    try:
        check_scalar_functions(files, KERNEL, ("op_host.cpp",))
    except CandidateError as error:
        return f"{error.reason}: {error.detail}"
    return ""


@pytest.mark.parametrize(
    ("call", "name", "vector"),
    [
        ("std::exp(a)", "`std::exp`", "Exp"),
        ("std :: log ( a )", "`std::log`", "Ln"),
        ("return tanhf(a);", "`tanhf`", "Tanh"),
        ("::powf(a, 2.0f)", "powf`", "Power"),
        ("erff(a)", "`erff`", "Erf"),
    ],
)
def test_scalar_function_is_refused_with_line_and_replacement(call: str, name: str, vector: str) -> None:
    detail = refusal_of(f"__aicore__ inline float f(float a) {{\n  float b = 1.0f + {call};\n}}")
    assert detail.startswith(f"compile_error: {KERNEL} line 4: ")
    assert name in detail
    assert f"with {vector};" in detail


@pytest.mark.parametrize(
    "text",
    [
        "// std::exp(a)",
        "AscendC::Exp(t, t, 8); Ln(t, t, 8);",
        "float b = sqrt(a) + std::sqrt(a) + std::max(a, b);",
        "__aicore__ inline float expf(float x) { return 1.0f + x; }\nfloat b = expf(a);",
        "#define tanh(x) Approximate(x)\nfloat b = tanh(a);",
        "ops.exp(a); ops->log(a); Own::exp(a);",
    ],
)
def test_vector_functions_and_own_functions_are_accepted(text: str) -> None:
    assert refusal_of(text) == ""


def test_headers_of_the_kernel_are_checked_and_host_code_is_not() -> None:
    call = "inline float f(float a) { return std::exp(a); }"
    assert "steps.h line 1" in refusal_of("", {"steps.h": call})
    assert refusal_of("", {"op_host.cpp": call, "other.h": call}) == ""
