"""Every recorded message of jax and of the TPU compiler maps to its reason and a short hint."""

import json
import re
from pathlib import Path

import error_kernels
import jax
import pytest
from error_kernels import KERNELS, lower_kernel

from evokernel.backends.pallas import compiler, program_codec
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.errors import MAX_CHARS, clean_message, explain_message, load_patterns
from evokernel.backends.pallas.lower import lower_program, target_chip
from evokernel.backends.pallas.trace import explain_exception
from evokernel.verifier.reasons import REASONS

RECORDED = json.loads(Path(__file__).with_name("errors.json").read_text())
EXPECTED = {
    "block_shape": """block_not_8_128 block_1d_small rank_mismatch index_map_arity index_map_rank block_spec_order specs_count
        wrong_argument_count semantics_count""",
    "vmem": "vmem_oom_blocks vmem_oom_scratch scoped_vmem_16m smem_too_big",
    "dtype": "f16_store f16_matmul int32_matmul int8_add dtype_mismatch_store fft",
    "unsupported": """sort cumsum gather conv_inside expm1 scatter dynamic_slice_of_value reshape_odd strided_lane dot_4d_multi_contract
        high_precision hbm_load scalar_store_vmem""",
    "alignment": "dynamic_lane_slice dynamic_row_slice_bf16 unaligned_dma_lanes unaligned_dma_rows_bf16",
    "shape": "missing_grid_outspec shape_mismatch_store shapes_do_not_broadcast dot_sizes",
    "out_of_bounds": "oob_static_slice",
    "trace_error": """returns_a_value captured_const python_if_traced python_range_traced numpy_of_tracer name_error old_load
        old_compiler_params program_id_outside item_assignment reference_as_array unknown_option""",
}
REASON = {name: reason for reason, names in EXPECTED.items() for name in names.split()}
COMPILER_ERRORS = [name for name, error in RECORDED.items() if not error["kind"]]


def test_every_error_kernel_has_a_recorded_message():
    assert set(KERNELS) == set(RECORDED) == set(REASON)
    assert len(COMPILER_ERRORS) == 14
    assert all(error["message"] or error["kind"] == "AssertionError" for error in RECORDED.values())


@pytest.mark.parametrize("name", RECORDED)
def test_every_message_has_its_reason(name):
    error = explain_message(RECORDED[name]["message"], RECORDED[name]["kind"])
    assert error.reason == REASON[name]
    assert len(error.detail) <= MAX_CHARS
    assert name == "name_error" or "\nHint: " in error.detail
    for noise in (
        "http",
        "file an issue",
        "report a bug",
        "<no name>",
        "#tpu",
        "block_size=",
        "/error_kernels",
        "stack_frame_id",
        "\n\n",
        "= 0x",
    ):
        assert noise not in error.detail


def remove_line_numbers(text):
    return re.sub(r"(\.py[:_]|frame_id=)\d+(:\d+)?", r"\1", text)


@pytest.mark.parametrize("name", [name for name in RECORDED if name not in COMPILER_ERRORS])
def test_jax_still_gives_the_recorded_message(name):
    kind, message, _ = lower_kernel(name, get_chip("v5e"))
    assert (kind, remove_line_numbers(message.strip())) == (RECORDED[name]["kind"], remove_line_numbers(RECORDED[name]["message"]))


@pytest.mark.parametrize("name", ["int8_add", "scoped_vmem_16m", "unaligned_dma_lanes"])
def test_compiler_still_gives_the_recorded_message(name, tmp_path):
    if reason := compiler.unavailable_reason():
        pytest.skip(reason)
    _, _, program = lower_kernel(name, get_chip("v5e"))
    with pytest.raises(compiler.CompileError) as error:
        compiler.compile_program(program, "v5e:1x1", tmp_path)
    assert remove_line_numbers(str(error.value).strip()) == remove_line_numbers(RECORDED[name]["message"])


def test_candidates_line_is_preserved_in_every_format():
    for name in COMPILER_ERRORS:
        assert re.search(r"\bat error_kernels\.py:\d+", explain_message(RECORDED[name]["message"]).detail), name


@pytest.mark.parametrize(("name", "words"), [("conv_inside", "conv_general_dilated"), ("scatter", ".at[0].set"), ("hbm_load", "x[...]")])
def test_lowering_error_of_jax_names_the_line(name, words):
    function, types = KERNELS[name]
    with target_chip(get_chip("v5e")):
        closed = program_codec.decode(program_codec.encode(jax.make_jaxpr(function)(*types)))
    with pytest.raises((NotImplementedError, ValueError)) as error:
        lower_program(closed, get_chip("v5e"))
    where = re.match(r"error_kernels\.py:(\d+): ", explain_exception(error.value).detail)
    assert where
    assert words in Path(str(error_kernels.__file__)).read_text().splitlines()[int(where[1]) - 1]


def test_mlir_dump_is_shortened_to_location_and_operation():
    text = explain_message(RECORDED["dynamic_lane_slice"]["message"]).detail.splitlines()
    assert text[0].startswith("Mosaic failed to compile TPU kernel: E2003: ")
    assert text[0].endswith("cannot statically prove that index in dimension 1 is a multiple of 128")
    assert re.fullmatch(r"at error_kernels\.py:\d+", text[1])
    assert text[2] == "operation: tpu.vector_load (memref<8x512xf32>, index, index) -> vector<8x128xf32>"
    assert "pl.multiple_of" in text[3]
    assert len(text) == 4


def test_sizes_are_shown_in_mebibytes():
    assert "Allocation of 256 MiB would exceed memory of 128 MiB" in explain_message(RECORDED["vmem_oom_blocks"]["message"]).detail
    assert "size 48.00M and limit 16.00M" in explain_message(RECORDED["scoped_vmem_16m"]["message"]).detail


INTERPRETED = [
    ("Out-of-bounds block index (4, 0) for input \"args[0]\" in iteration (4,) on device 0 (core 0): reading [512:640]", "out_of_bounds"),
    ("IndexError: Out-of-bounds read of (0 0 2 3): reading [120:136] but buffer has shape (128, 128).", "out_of_bounds"),
    ("Revisited block ((0, 128),) of output 0 in iteration (2,).", "race"),
    ("RACE DETECTED\n  write of buffer 3", "race"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "reason"), INTERPRETED)
def test_messages_of_interpret_mode(message, reason):
    assert explain_message(message).reason == reason


@pytest.mark.parametrize(
    ("message", "kind", "reason"),
    [
        ("name 'lax' is not defined", "NameError", "trace_error"),
        ("invalid syntax (kernel.py, line 3)", "SyntaxError", "trace_error"),
        ("this size is unsupported", "ValueError", "trace_error"),  # a message of the candidate
        ("No module named 'triton'", "ModuleNotFoundError", "trace_error"),
        ("something new", "MosaicError", "compile_error"),
        ("something new", "", "compile_error"),
        ("INTERNAL: Mosaic failed to compile TPU kernel: Unsupported target bitwidth", "", "unsupported"),
        ("body() takes 2 positional arguments but 3 were given", "TypeError", "trace_error"),
        ("", "", "compile_error"),
    ],
)
def test_unknown_messages_get_a_general_reason(message, kind, reason):
    assert explain_message(message, kind).reason == reason
    assert explain_message(message, kind).detail


def test_default_reason_applies_if_no_pattern_matches():
    assert explain_message("something new", "ValueError", default_reason="compile_error").reason == "compile_error"
    assert explain_message("Out of bound slice: start=4", "ValueError", default_reason="compile_error").reason == "out_of_bounds"


def test_internal_frames_and_paths_are_removed():
    text = clean_message(
        "Traceback (most recent call last):\n"
        '  File "/home/me/venv/lib/python3.11/site-packages/jax/_src/core.py", line 10, in bind\n'
        "    return self.impl(x)\n"
        '  File "/tmp/verifier/kernel.py", line 14, in kernel\n'
        "    return x + y\n"
        "ValueError: bad \x1b[31mvalue\x00 in /home/me/thing/other.py:3, see https://example.org/a/b for more details.\n"
    )
    assert text == "at kernel.py:14\nValueError: bad  [31mvalue  in other.py:3, see"


def test_long_messages_are_truncated_before_the_hint():
    detail = explain_message("Invalid shape for `swap`. " + "very long " * 1000).detail
    assert len(detail) == MAX_CHARS
    assert "…\nHint: the stored value" in detail


def test_patterns_have_known_reasons_and_single_line_hints():
    for pattern in load_patterns():
        assert pattern.reason in REASONS
        assert pattern.hint
        assert "\n" not in pattern.hint
        assert len(pattern.hint) < 200


def test_program_that_does_not_fit_into_hbm_is_not_told_to_use_smaller_blocks():
    message = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries (24.00G) "
        "exceeds available HBM (15.75G). HLO module: jit_jaxpr_as_fun.\nSee https://openxla.org/xla/errors/error_1000 for more details."
    )
    error = explain_message(message)
    assert error.reason == "memory"
    assert "(24.00G) exceeds available HBM (15.75G)" in error.detail
    assert "VMEM" not in error.detail
