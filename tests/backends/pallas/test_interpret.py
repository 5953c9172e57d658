"""Interpret mode as a check: right kernels pass, every kind of bug is found, and a failure leaves nothing behind."""

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
from interpret_kernels import data, shape, traced
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import interpret_patches, program
from evokernel.backends.pallas.interpret import Interpreted, buffer_names
from evokernel.core.errors import CandidateError

HIGHEST = jax.lax.Precision.HIGHEST
BUGS = {
    kernels.uninitialised_total: ((512, 128), "nan", ""),
    kernels.read_before_wait: ((128, 128), "race", r"buffer is read by the kernel \(.*\) and written by a transfer"),
    kernels.output_not_waited: ((128, 128), "race", "still under way at the end of the kernel"),
    kernels.overwritten_before_wait: ((512, 128), "race", r"buffer is written by the kernel \(.*\) and read by a transfer"),
    kernels.read_outside: ((128, 128), "out_of_bounds", r"\(interpret_kernels.py:\d+\): x\[72:136, 0:128\]"),
    kernels.write_outside: ((128, 128), "out_of_bounds", r"\(interpret_kernels.py:\d+\): o\[124:132, 0:128\]"),
    kernels.block_outside: ((256, 128), "out_of_bounds", r"block \(2, 0\) of x in grid step \(1,\)"),
    kernels.block_not_written: ((256, 128), "nan", ""),
    kernels.padding_summed: ((200, 128), "nan", ""),
    kernels.total_shared: ((512, 128), "race", "o is written .* declared parallel"),
    kernels.scratch_shared: ((64, 128), "nan", ""),
    kernels.block_revisited: ((512, 128), "race", r"output 0 was left after grid step \(0, 0\) and is visited again in \(1, 0\)"),
    kernels.transfer_left_over: ((128, 128), "race", "still under way at the end of the kernel"),
    kernels.waits_for_ever: ((128, 128), "timeout", "never ends"),
    kernels.negative_index: ((8, 128), "out_of_bounds", r"x\[-1, 0:128\]"),
    kernels.two_transfers_collide: ((256, 128), "race", r"buffer is written by a transfer \(.*\) and written by a transfer"),
    kernels.reference_reshaped: ((16, 128), "unsupported", "load the value"),
    kernels.race_then_good: ((128, 128), "race", "buffer is read by the kernel"),
}


@pytest.mark.parametrize("function", BUGS, ids=lambda function: function.__name__)
def test_a_bug_is_found_and_leaves_nothing_behind(function, doubled):
    size, reason, words = BUGS[function]
    checked = Interpreted(traced(function, shape(*size)))
    if reason == "nan":
        assert np.isnan(checked.run(data(shape(*size)))[0]).any()
    else:
        with pytest.raises(CandidateError, match=words) as caught:
            checked.run(data(shape(*size)))
        assert caught.value.reason == reason
    (x,) = data(shape(100, 130))
    np.testing.assert_array_equal(doubled.run([x])[0], x * 2)


@pytest.fixture(scope="module")
def doubled():
    return Interpreted(traced(kernels.odd_block, shape(100, 130)))


def convolved(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision=HIGHEST)


GOOD = {
    "softmax": (kernels.softmax, [(64, 256)], lambda x: jax.nn.softmax(x, axis=1)),
    "ragged": (kernels.softmax, [(60, 250)], lambda x: jax.nn.softmax(x, axis=1)),
    "checkpoint": (jax.checkpoint(kernels.softmax), [(60, 250)], lambda x: jax.nn.softmax(x, axis=1)),
    "over its input": (kernels.over_its_input, [(60, 250)], lambda x: 2 * jax.nn.softmax(x, axis=1)),
    "mapped": (jax.vmap(partial(kernels.matmul, precision=HIGHEST)), [(2, 256, 128), (2, 128, 256)], lambda x, y: np.float64(x) @ y),
    "matmul": (partial(kernels.matmul, precision=HIGHEST), [(256, 128), (128, 256)], lambda x, y: np.float64(x) @ y),
    "two buffers": (kernels.two_buffers, [(256, 128)], lambda x: x * 2),
    "pipeline": (kernels.pipelined, [(256, 128), (256, 128)], lambda x, y: x + y),
    "loop": (kernels.loop, [(256, 128)], lambda x: x.reshape(32, 8, 128).sum(0)),
    "strides": (kernels.strided, [(16, 128)], lambda x: x.reshape(8, 2, 128)[:, ::-1].reshape(16, 128)),
    "two kernels": (kernels.chained, [(128, 128), (128, 128)], lambda x, y: jax.nn.softmax((np.float64(x) @ y).T, axis=1)),
}


@pytest.mark.parametrize("name", GOOD)
def test_right_kernels_are_right_for_other_data_too(name):
    function, sizes, expected = GOOD[name]
    types = [shape(*size) for size in sizes]
    checked = Interpreted(traced(function, *types))
    for seed in (0, 1):
        arrays = data(*types, seed=seed)
        np.testing.assert_allclose(checked.run(arrays)[0], expected(*arrays), rtol=1e-4, atol=1e-5)


def test_a_convolution_is_multiplied_as_the_matrix_unit_does():
    types = [shape(2, 8, 8, 16), shape(3, 3, 16, 32)]
    arrays = data(*types)
    (out,) = Interpreted(traced(kernels.convolution, *types)).run(arrays)
    rounded = [array.astype(ml_dtypes.bfloat16).astype(np.float32) for array in arrays]
    np.testing.assert_allclose(out, convolved(*rounded), rtol=1e-4, atol=1e-4)
    assert np.abs(out - convolved(*arrays)).max() > 1e-3


def test_a_decoded_program_runs_and_names_the_line():
    closed = program.decode(program.encode(traced(kernels.read_outside, shape(128, 128))))
    with pytest.raises(CandidateError, match=r"interpret_kernels.py:\d+\): x\[72:136"):
        Interpreted(closed).run(data(shape(128, 128)))


def test_bfloat16_comes_and_goes_as_uint16():
    kind = shape(128, 128, dtype=jnp.bfloat16)
    x, y = data(kind, kind)
    checked = Interpreted(traced(kernels.matmul, kind, kind))
    (out,) = checked.run([x.view(np.uint16), y.view(np.uint16)])
    assert out.dtype == np.uint16
    exact = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(out.view(ml_dtypes.bfloat16).astype(np.float64), exact, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(checked.run([x, y])[0], out)


def test_the_same_as_the_mode_as_it_comes():
    """What is replaced in interpret mode changes no result."""
    (x,) = data(shape(256, 128))
    with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams(detect_races=True)):
        (theirs,) = [np.asarray(jax.jit(kernels.two_buffers)(x))]
    mode.reset_tpu_interpret_mode_state()
    np.testing.assert_array_equal(Interpreted(traced(kernels.two_buffers, shape(256, 128))).run([x])[0], theirs)


def test_transfers_that_do_not_meet_are_not_compared(monkeypatch):
    (x,) = data(shape(64, 128))
    asked = []
    monkeypatch.setattr(interpret_patches, "ordered", lambda *clocks, known=interpret_patches.ordered: asked.append(1) or known(*clocks))
    np.testing.assert_array_equal(Interpreted(traced(kernels.row_by_row, shape(64, 128))).run([x])[0], x)
    assert 0 < len(asked) < 1500, "each row's transfer against every other's would be three times as many"


def copied(x, o):
    o[...] = x[...]


@pytest.mark.parametrize(("kinds", "known"), [(("arbitrary", "parallel"), False), (("parallel", "arbitrary"), True)])
def test_cores_can_only_share_the_first_dimensions(kinds, known):
    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    settings = pltpu.CompilerParams(dimension_semantics=kinds)
    call = pl.pallas_call(copied, out_shape=shape(16, 256), grid=(2, 2), in_specs=[spec], out_specs=spec, compiler_params=settings)
    if known:
        (x,) = data(shape(16, 256))
        np.testing.assert_array_equal(Interpreted(traced(call, shape(16, 256))).run([x])[0], x)
    else:
        with pytest.raises(
            CandidateError, match=r"follows an arbitrary one \(test_interpret.py:\d+\): put the parallel ones first"
        ) as caught:
            Interpreted(traced(lambda x: call(x), shape(16, 256)))
        assert caught.value.reason == "block_shape"


def test_steps_are_counted_inside_a_checkpoint_too():
    closed = traced(jax.checkpoint(partial(kernels.softmax, block=8)), shape(8 * 2001, 128))
    with pytest.raises(CandidateError, match="2001 grid steps"):
        Interpreted(closed)


def test_too_many_grid_steps_are_refused_before_anything_runs():
    closed = traced(partial(kernels.softmax, block=8), shape(8 * 2001, 128))
    with pytest.raises(CandidateError, match="2001 grid steps") as caught:
        Interpreted(closed)
    assert caught.value.reason == "timeout"


def test_buffers_are_named_in_the_order_they_are_allocated():
    call = traced(kernels.matmul, shape(128, 128), shape(128, 128)).jaxpr.eqns[0]
    assert buffer_names(call.params) == ["x", "y", "o", "x", "y", "o", "total"]


WARM = """
import os, sys
from evokernel.backends.pallas import interpret
sys.path.insert(0, sys.argv[1])
import interpret_kernels as kernels
interpret.warm()
assert len(os.listdir("/proc/self/task")) == 1, "warming up started a thread"
"""
FORKED = """
child = os.fork()
if child == 0:
    kind = kernels.shape(64, 256)
    out, = interpret.Interpreted(kernels.traced(kernels.softmax, kind)).run(kernels.data(kind))
    os._exit(0 if abs(out.sum() - 64) < 1e-3 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_warming_up_starts_no_thread_and_children_run():
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"}
    folder = str(Path(kernels.__file__).parent)
    subprocess.run([sys.executable, "-c", WARM + FORKED, folder], env=environment, check=True, timeout=60)


@pytest.mark.parametrize(("stride", "right"), [(64, True), (40, False)])
def test_a_promise_of_alignment_is_taken_at_its_word(stride, right):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[pl.ds(pl.multiple_of(pl.program_id(0) * stride, 64), 8), :]

    rows = np.arange(256 * 128, dtype=np.float32).reshape(256, 128)
    shape = jax.ShapeDtypeStruct(rows.shape, jnp.float32)
    whole, part = pl.BlockSpec((256, 128), lambda i: (0, 0)), pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((24, 128), jnp.float32), grid=(3,), in_specs=[whole], out_specs=part)
    (found,) = Interpreted(jax.make_jaxpr(call)(shape)).run([rows])
    wanted = np.concatenate([rows[stride * i : stride * i + 8] for i in range(3)])
    assert np.array_equal(found, wanted) is right
