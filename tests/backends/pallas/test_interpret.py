"""Interpret mode as a check: correct kernels pass, every kind of bug is detected, and a failure does not affect later runs."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import interpret_kernels as kernels
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from interpret_kernels import data, shape, trace_for_tpu
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from time_limits import HANG_S

from evokernel.backends.pallas import interpret_patches, program_codec
from evokernel.backends.pallas.interpret import InterpretedProgram
from evokernel.backends.pallas.interpret_errors import buffer_names
from evokernel.core.errors import CandidateError

HIGHEST = jax.lax.Precision.HIGHEST
BUGS = {
    kernels.uninitialised_total: ((512, 128), "nan", ""),
    kernels.read_before_wait: ((128, 128), "race", r"buffer is read by the kernel \(.*\) and written by a transfer"),
    kernels.output_not_waited: ((128, 128), "race", "still running at the end of the kernel"),
    kernels.overwritten_before_wait: ((512, 128), "race", r"buffer is written by the kernel \(.*\) and read by a transfer"),
    kernels.read_outside: ((128, 128), "out_of_bounds", r"\(interpret_kernels.py:\d+\): x\[72:136, 0:128\]"),
    kernels.write_outside: ((128, 128), "out_of_bounds", r"\(interpret_kernels.py:\d+\): o\[124:132, 0:128\]"),
    kernels.block_outside: ((256, 128), "out_of_bounds", r"block \(2, 0\) of x in grid step \(1,\)"),
    kernels.block_not_written: ((256, 128), "nan", ""),
    kernels.padding_summed: ((200, 128), "nan", ""),
    kernels.total_shared: ((512, 128), "race", "o is written .* differ in a parallel dimension"),
    kernels.scratch_shared: ((64, 128), "nan", ""),
    kernels.block_revisited: (
        (512, 128),
        "race",
        r"output 0 was written out after grid step \(0, 0\) and is visited again in step \(1, 0\)",
    ),
    kernels.transfer_left_over: ((128, 128), "race", "still running at the end of the kernel"),
    kernels.waits_for_ever: ((128, 128), "timeout", "never ends"),
    kernels.negative_index: ((8, 128), "out_of_bounds", r"x\[-1, 0:128\]"),
    kernels.two_transfers_collide: ((256, 128), "race", r"buffer is written by a transfer \(.*\) and written by a transfer"),
    kernels.reference_reshaped: ((16, 128), "unsupported", "load the value"),
    kernels.race_then_good: ((128, 128), "race", "buffer is read by the kernel"),
}


@pytest.mark.parametrize("function", BUGS, ids=lambda function: function.__name__)
def test_bug_is_detected_and_does_not_affect_later_runs(function, doubled):
    size, reason, message = BUGS[function]
    program = InterpretedProgram(trace_for_tpu(function, shape(*size)))
    if reason == "nan":
        assert np.isnan(program.run(data(shape(*size)))[0]).any()
    else:
        with pytest.raises(CandidateError, match=message) as caught:
            program.run(data(shape(*size)))
        assert caught.value.reason == reason
    (x,) = data(shape(100, 130))
    np.testing.assert_array_equal(doubled.run([x])[0], x * 2)


@pytest.fixture(scope="module")
def doubled():
    return InterpretedProgram(trace_for_tpu(kernels.odd_block, shape(100, 130)))


def convolve(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision=HIGHEST)


GOOD = {
    "softmax": (kernels.softmax, [(64, 256)], lambda x: jax.nn.softmax(x, axis=1)),
    "ragged": (kernels.softmax, [(60, 250)], lambda x: jax.nn.softmax(x, axis=1)),
    "checkpoint": (jax.checkpoint(kernels.softmax), [(60, 250)], lambda x: jax.nn.softmax(x, axis=1)),
    "over its input": (kernels.over_its_input, [(60, 250)], lambda x: 2 * jax.nn.softmax(x, axis=1)),
    "mapped": (jax.vmap(partial(kernels.matmul, precision=HIGHEST)), [(2, 256, 128), (2, 128, 256)], lambda x, y: np.float64(x) @ y),
    "matmul": (partial(kernels.matmul, precision=HIGHEST), [(256, 128), (128, 256)], lambda x, y: np.float64(x) @ y),
    "two buffers": (kernels.two_buffers, [(256, 128)], lambda x: x * 2),
    "pipeline": (kernels.inner_pipeline, [(256, 128), (256, 128)], lambda x, y: x + y),
    "loop": (kernels.loop, [(256, 128)], lambda x: x.reshape(32, 8, 128).sum(0)),
    "strides": (kernels.strided_access, [(16, 128)], lambda x: x.reshape(8, 2, 128)[:, ::-1].reshape(16, 128)),
    "two kernels": (kernels.two_kernels, [(128, 128), (128, 128)], lambda x, y: jax.nn.softmax((np.float64(x) @ y).T, axis=1)),
}


@pytest.mark.parametrize("name", GOOD)
def test_correct_kernels_pass_with_other_data_too(name):
    function, sizes, expected = GOOD[name]
    types = [shape(*size) for size in sizes]
    program = InterpretedProgram(trace_for_tpu(function, *types))
    for seed in (0, 1):
        arrays = data(*types, seed=seed)
        np.testing.assert_allclose(program.run(arrays)[0], expected(*arrays), rtol=1e-4, atol=1e-5)


def test_convolution_rounds_like_the_matrix_unit():
    types = [shape(2, 8, 8, 16), shape(3, 3, 16, 32)]
    arrays = data(*types)
    (out,) = InterpretedProgram(trace_for_tpu(kernels.convolution, *types)).run(arrays)
    rounded_arrays = [array.astype(ml_dtypes.bfloat16).astype(np.float32) for array in arrays]
    np.testing.assert_allclose(out, convolve(*rounded_arrays), rtol=1e-4, atol=1e-4)
    assert np.abs(out - convolve(*arrays)).max() > 1e-3


def test_decoded_program_runs_and_names_the_line():
    closed = program_codec.decode(program_codec.encode(trace_for_tpu(kernels.read_outside, shape(128, 128))))
    with pytest.raises(CandidateError, match=r"interpret_kernels.py:\d+\): x\[72:136"):
        InterpretedProgram(closed).run(data(shape(128, 128)))


def test_bfloat16_arrays_are_passed_as_uint16():
    kind = shape(128, 128, dtype=jnp.bfloat16)
    x, y = data(kind, kind)
    program = InterpretedProgram(trace_for_tpu(kernels.matmul, kind, kind))
    (out,) = program.run([x.view(np.uint16), y.view(np.uint16)])
    assert out.dtype == np.uint16
    exact = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(out.view(ml_dtypes.bfloat16).astype(np.float64), exact, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(program.run([x, y])[0], out)


def test_patches_do_not_change_results():
    (x,) = data(shape(256, 128))
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        (unpatched,) = [np.asarray(jax.jit(kernels.two_buffers)(x))]
    mode.reset_tpu_interpret_mode_state()
    np.testing.assert_array_equal(InterpretedProgram(trace_for_tpu(kernels.two_buffers, shape(256, 128))).run([x])[0], unpatched)


def test_disjoint_transfers_are_not_compared(monkeypatch):
    (x,) = data(shape(64, 128))
    comparisons = []
    is_ordered = interpret_patches.is_ordered
    monkeypatch.setattr(interpret_patches, "is_ordered", lambda *clocks: comparisons.append(1) or is_ordered(*clocks))
    np.testing.assert_array_equal(InterpretedProgram(trace_for_tpu(kernels.row_by_row, shape(64, 128))).run([x])[0], x)
    assert 0 < len(comparisons) < 1500, "comparing each row's transfer with every other one would take three times as many"


def copy_body(x, o):
    o[...] = x[...]


@pytest.mark.parametrize(("kinds", "is_allowed"), [(("arbitrary", "parallel"), False), (("parallel", "arbitrary"), True)])
def test_parallel_dimensions_must_come_first(kinds, is_allowed):
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    settings = pltpu.CompilerParams(dimension_semantics=kinds)
    call = pl.pallas_call(copy_body, out_shape=shape(16, 256), grid=(2, 2), in_specs=[spec], out_specs=spec, compiler_params=settings)
    if is_allowed:
        (x,) = data(shape(16, 256))
        np.testing.assert_array_equal(InterpretedProgram(trace_for_tpu(call, shape(16, 256))).run([x])[0], x)
    else:
        with pytest.raises(
            CandidateError, match=r"follows an arbitrary one \(test_interpret.py:\d+\): put the parallel dimensions first"
        ) as caught:
            InterpretedProgram(trace_for_tpu(lambda x: call(x), shape(16, 256)))
        assert caught.value.reason == "block_shape"


def test_grid_steps_inside_a_checkpoint_are_counted():
    closed = trace_for_tpu(jax.checkpoint(partial(kernels.softmax, block=8)), shape(8 * 2001, 128))
    with pytest.raises(CandidateError, match="2001 grid steps"):
        InterpretedProgram(closed)


def test_too_many_grid_steps_are_rejected_before_the_run():
    closed = trace_for_tpu(partial(kernels.softmax, block=8), shape(8 * 2001, 128))
    with pytest.raises(CandidateError, match="2001 grid steps") as caught:
        InterpretedProgram(closed)
    assert caught.value.reason == "timeout"


def test_buffer_names_follow_the_order_of_allocation():
    call = trace_for_tpu(kernels.matmul, shape(128, 128), shape(128, 128)).jaxpr.eqns[0]
    assert buffer_names(call.params) == ["x", "y", "o", "x", "y", "o", "total"]


WARM = """
import os, sys
from evokernel.backends.pallas import interpret
import interpret_kernels as kernels
interpret.trace_warm_up_program()
assert len(os.listdir("/proc/self/task")) == 1, "warming up started a thread"
"""
FORKED = """
pid = os.fork()
if pid == 0:
    kind = kernels.shape(64, 256)
    out, = interpret.InterpretedProgram(kernels.trace_for_tpu(kernels.softmax, kind)).run(kernels.data(kind))
    os._exit(0 if abs(out.sum() - 64) < 1e-3 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_warm_up_starts_no_thread_and_forked_processes_run():
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(kernels.__file__).parent)}
    subprocess.run([sys.executable, "-c", WARM + FORKED], env=environment, check=True, timeout=HANG_S)


@pytest.mark.parametrize(("stride", "is_correct"), [(64, True), (40, False)])
def test_false_promise_of_alignment_changes_the_result(stride, is_correct):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(pl.program_id(0) * stride, 64), 8), :]

    rows = np.arange(256 * 128, dtype=np.float32).reshape(256, 128)
    shape = jax.ShapeDtypeStruct(rows.shape, jnp.float32)
    full, part = pl.BlockSpec((256, 128), lambda i: (0, 0)), pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((24, 128), jnp.float32), grid=(3,), in_specs=[full], out_specs=part)
    (result,) = InterpretedProgram(jax.make_jaxpr(call)(shape)).run([rows])
    expected = np.concatenate([rows[stride * i : stride * i + 8] for i in range(3)])
    assert np.array_equal(result, expected) is is_correct
