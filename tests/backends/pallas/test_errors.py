"""Every message of jax and of the TPU compiler that was collected gets its reason, and says what to do in few words."""

import json
import re
from pathlib import Path

import error_kernels
import jax
import pytest
from error_kernels import KERNELS, refusal

from evokernel.backends.pallas import compiler, program
from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.errors import LIMIT, clean, explain, patterns
from evokernel.backends.pallas.lower import lower, target
from evokernel.backends.pallas.trace import explained
from evokernel.verify.reasons import REASONS

COLLECTED = json.loads(Path(__file__).with_name("errors.json").read_text())
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
OF_THE_COMPILER = [name for name, found in COLLECTED.items() if not found["kind"]]


def test_the_collection_is_whole():
    assert set(KERNELS) == set(COLLECTED) == set(REASON)
    assert len(OF_THE_COMPILER) == 14
    assert all(found["message"] or found["kind"] == "AssertionError" for found in COLLECTED.values())


@pytest.mark.parametrize("name", COLLECTED)
def test_every_message_has_its_reason(name):
    found = explain(COLLECTED[name]["message"], COLLECTED[name]["kind"])
    assert found.reason == REASON[name]
    assert len(found.detail) <= LIMIT
    assert name == "name_error" or "\nHint: " in found.detail
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
        assert noise not in found.detail


def anonymous(text):
    return re.sub(r"(\.py[:_]|frame_id=)\d+(:\d+)?", r"\1", text)


@pytest.mark.parametrize("name", [name for name in COLLECTED if name not in OF_THE_COMPILER])
def test_jax_still_says_so(name):
    kind, message, _ = refusal(name, chip("v5e"))
    assert (kind, anonymous(message.strip())) == (COLLECTED[name]["kind"], anonymous(COLLECTED[name]["message"]))


@pytest.mark.parametrize("name", ["int8_add", "scoped_vmem_16m", "unaligned_dma_lanes"])
def test_the_compiler_still_says_so(name, tmp_path):
    if missing := compiler.missing():
        pytest.skip(missing)
    _, _, program = refusal(name, chip("v5e"))
    with pytest.raises(compiler.Refused) as error:
        compiler.compile_program(program, "v5e:1x1", tmp_path)
    assert anonymous(str(error.value).strip()) == anonymous(COLLECTED[name]["message"])


def test_the_candidates_line_is_kept():
    """Whatever form the compiler gives it in."""
    for name in OF_THE_COMPILER:
        assert re.search(r"\bat error_kernels\.py:\d+", explain(COLLECTED[name]["message"]).detail), name


@pytest.mark.parametrize(("name", "words"), [("conv_inside", "conv_general_dilated"), ("scatter", ".at[0].set"), ("hbm_load", "x[...]")])
def test_the_line_is_told_when_jax_itself_refuses_an_operation(name, words):
    function, types = KERNELS[name]
    with target(chip("v5e")):
        closed = program.decode(program.encode(jax.make_jaxpr(function)(*types)))
    with pytest.raises((NotImplementedError, ValueError)) as error:
        lower(closed, chip("v5e"))
    where = re.match(r"error_kernels\.py:(\d+): ", explained(error.value).detail)
    assert where
    assert words in Path(str(error_kernels.__file__)).read_text().splitlines()[int(where[1]) - 1]


def test_a_dump_is_cut_to_what_helps():
    text = explain(COLLECTED["dynamic_lane_slice"]["message"]).detail.splitlines()
    assert text[0].startswith("Mosaic failed to compile TPU kernel: E2003: ")
    assert text[0].endswith("cannot statically prove that index in dimension 1 is a multiple of 128")
    assert re.fullmatch(r"at error_kernels\.py:\d+", text[1])
    assert text[2] == "operation: tpu.vector_load (memref<8x512xf32>, index, index) -> vector<8x128xf32>"
    assert "pl.multiple_of" in text[3]
    assert len(text) == 4


def test_sizes_are_readable():
    assert "Allocation of 256 MiB would exceed memory of 128 MiB" in explain(COLLECTED["vmem_oom_blocks"]["message"]).detail
    assert "size 48.00M and limit 16.00M" in explain(COLLECTED["scoped_vmem_16m"]["message"]).detail


INTERPRETED = [
    ("Out-of-bounds block index (4, 0) for input \"args[0]\" in iteration (4,) on device 0 (core 0): reading [512:640]", "out_of_bounds"),
    ("IndexError: Out-of-bounds read of (0 0 2 3): reading [120:136] but buffer has shape (128, 128).", "out_of_bounds"),
    ("Revisited block ((0, 128),) of output 0 in iteration (2,).", "race"),
    ("RACE DETECTED\n  write of buffer 3", "race"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "reason"), INTERPRETED)
def test_messages_of_the_interpreter(message, reason):
    assert explain(message).reason == reason


@pytest.mark.parametrize(
    ("message", "kind", "reason"),
    [
        ("name 'lax' is not defined", "NameError", "trace_error"),
        ("invalid syntax (kernel.py, line 3)", "SyntaxError", "trace_error"),
        ("this size is unsupported", "ValueError", "trace_error"),  # the candidate's own words
        ("No module named 'triton'", "ModuleNotFoundError", "trace_error"),
        ("something new", "MosaicError", "compile_error"),
        ("something new", "", "compile_error"),
        ("INTERNAL: Mosaic failed to compile TPU kernel: Unsupported target bitwidth", "", "unsupported"),
        ("body() takes 2 positional arguments but 3 were given", "TypeError", "trace_error"),
        ("", "", "compile_error"),
    ],
)
def test_messages_nobody_collected(message, kind, reason):
    assert explain(message, kind).reason == reason
    assert explain(message, kind).detail


def test_the_caller_may_know_better():
    assert explain("something new", "ValueError", otherwise="compile_error").reason == "compile_error"
    assert explain("Out of bound slice: start=4", "ValueError", otherwise="compile_error").reason == "out_of_bounds"


def test_internal_frames_and_paths_go():
    text = clean(
        "Traceback (most recent call last):\n"
        '  File "/home/me/venv/lib/python3.11/site-packages/jax/_src/core.py", line 10, in bind\n'
        "    return self.impl(x)\n"
        '  File "/tmp/judge/kernel.py", line 14, in kernel\n'
        "    return x + y\n"
        "ValueError: bad \x1b[31mvalue\x00 in /home/me/thing/other.py:3, see https://example.org/a/b for more details.\n"
    )
    assert text == "at kernel.py:14\nValueError: bad  [31mvalue  in other.py:3, see"


def test_long_messages_are_cut_and_the_hint_stays():
    detail = explain("Invalid shape for `swap`. " + "very long " * 1000).detail
    assert len(detail) == LIMIT
    assert "…\nHint: the value stored" in detail


def test_reasons_are_known_and_hints_are_single_lines():
    for pattern in patterns():
        assert pattern.reason in REASONS
        assert pattern.hint
        assert "\n" not in pattern.hint
        assert len(pattern.hint) < 200
