"""Programs that run in parts: all parts together give the bits of a complete run, and a part finds every defect in its block."""

from __future__ import annotations

import itertools
import json
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import interpret_kernels
import jax.numpy as jnp
import numpy as np
import parts_kernels as kernels
import pytest
from interpret_kernels import data, shape, trace_for_tpu

from evokernel.backends import pallas
from evokernel.backends.pallas import program_codec
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.interpret import InterpretedProgram
from evokernel.backends.pallas.kernel import PallasKernel
from evokernel.backends.pallas.lower import target_chip
from evokernel.backends.pallas.parts import PallasParts
from evokernel.core.backend import Arguments, Array, PartialKernel
from evokernel.core.errors import CandidateError

V5E = get_chip("v5e")
ORDER = shape(8, dtype=jnp.int32)


def store(array: np.ndarray) -> np.ndarray:
    """An array as the verifier stores it."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def bind(closed: Any, arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray] | None = None) -> tuple[PallasParts, list[np.ndarray]]:
    """A program with these inputs, and its outputs filled with poison."""
    if outputs is None:
        outputs = [np.full(aval.shape, 77, np.uint16 if aval.dtype.name == "bfloat16" else aval.dtype) for aval in closed.out_avals]
    inputs = [Array(f"x{i}", aval.dtype.name, store(array)) for i, (aval, array) in enumerate(zip(closed.in_avals, arrays, strict=True))]
    results = [Array(f"out{i}", aval.dtype.name, array) for i, (aval, array) in enumerate(zip(closed.out_avals, outputs, strict=True))]
    return PallasParts(closed, Arguments(tuple(inputs), (), tuple(results)), V5E, detect_races=True), list(outputs)


def list_positions(parts: PallasParts, outputs: Sequence[np.ndarray]) -> list[float]:
    """Positions of parts that cover every output completely."""
    positions: set[float] = set()
    for number, output in enumerate(outputs):
        missing = np.ones(output.size, bool)
        while missing.any():
            position = int(missing.argmax()) / max(output.size - 1, 1)
            positions.add(position)
            for first, last in parts.locate([position])[number]:
                missing[first:last] = False
    return sorted(positions)


def run_completely(closed: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    with target_chip(V5E):
        return InterpretedProgram(closed).run(arrays)


def require_equal_to_complete_run(closed: Any, arrays: Sequence[np.ndarray]) -> PallasParts:
    expected = run_completely(closed, arrays)
    parts, outputs = bind(closed, arrays)
    parts.run(list_positions(parts, outputs))
    for one, other in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))
    return parts


WHOLE = {
    interpret_kernels.softmax: [shape(64, 250)],
    interpret_kernels.over_its_input: [shape(64, 250)],
    interpret_kernels.row_by_row: [shape(64, 128)],
    interpret_kernels.matmul: [shape(256, 384), shape(384, 256)],
    interpret_kernels.convolution: [shape(2, 8, 16, 128), shape(3, 3, 128, 128)],
    interpret_kernels.two_buffers: [shape(256, 128)],
    interpret_kernels.inner_pipeline: [shape(256, 128), shape(256, 128)],
    interpret_kernels.loop: [shape(64, 128)],
    interpret_kernels.odd_block: [shape(100, 130)],
    interpret_kernels.strided_access: [shape(64, 128)],
    interpret_kernels.two_kernels: [shape(128, 128), shape(128, 128)],
    kernels.layouts_around: [shape(64, 128)],
    kernels.spread_result: [shape(64, 128)],
    kernels.gathered_rows: [shape(64, 128), ORDER],
    kernels.scattered_rows: [shape(64, 128), ORDER],
    kernels.rows_copied_by_the_kernel: [shape(64, 128)],
    kernels.windows: [shape(72, 128)],
    kernels.tail_by_iota: [shape(61, 128)],
    kernels.wrong_in_one_block: [shape(64, 128)],
    kernels.double: [shape(64, 128, dtype=jnp.bfloat16)],
}
CARRIED = {
    kernels.total_by_selection: ([shape(32, 512)], 0),
    kernels.running_sum: ([shape(16, 512)], 1),
    kernels.counted_steps: ([shape(64, 128)], 1),
    kernels.next_block_copied_early: ([shape(64, 128)], 1),
    kernels.next_step_signalled: ([shape(64, 128)], 1),
    kernels.sum_in_an_output: ([shape(16, 384)], 1),
    kernels.input_buffer_changed: ([shape(64, 128)], 1),
    kernels.two_passes: ([shape(64, 128)], 2),
}


def make_data(types: Sequence[Any]) -> list[np.ndarray]:
    return [np.array([3, 1, 7, 0, 2, 6, 5, 4], np.int32) if kind is ORDER else data(kind)[0] for kind in types]


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_all_parts_together_equal_a_complete_run(function):
    types = WHOLE[function]
    require_equal_to_complete_run(trace_for_tpu(function, *types), make_data(types))


@pytest.mark.parametrize("function", CARRIED, ids=lambda function: function.__name__)
def test_part_includes_earlier_steps_whose_state_it_reads(function):
    types, level = CARRIED[function]
    parts = require_equal_to_complete_run(trace_for_tpu(function, *types), make_data(types))
    assert max(kernel.level for kernel in parts.kernels) == level


@pytest.mark.parametrize("name", ["good", "good-steps", "good-two-kernels", "good-copies", "good-pipeline", "good-whole"])
def test_parts_of_the_samples_equal_a_complete_run(name):
    namespace: dict[str, Any] = {}
    exec(compile((Path(pallas.__path__[0]) / "samples" / name / "kernel.py").read_text(), "kernel.py", "exec"), namespace)
    types = [shape(200, 181), shape(67, 181), shape(67)]
    closed = trace_for_tpu(lambda *arrays: namespace["kernel"](*arrays, 181, 67, 0.5), *types)
    require_equal_to_complete_run(closed, data(*types))


def test_part_writes_only_what_it_locates():
    closed = trace_for_tpu(interpret_kernels.matmul, shape(256, 256), shape(256, 256))
    parts, (output,) = bind(closed, data(shape(256, 256), shape(256, 256)))
    positions = [0.0, 0.99]
    (ranges,) = parts.locate(positions)
    assert ranges == tuple(sorted(ranges))
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))
    inside = np.zeros(output.size, bool)
    for first, last in ranges:
        inside[first:last] = True
    assert inside.sum() == 2 * 128 * 128
    assert inside[0]
    assert not inside[128]
    parts.run(positions)
    assert (output.reshape(-1)[~inside] == 77).all()
    assert not (output.reshape(-1)[inside] == 77).any()


def test_defect_in_one_block_shows_in_the_part_with_that_block_only():
    x = data(shape(64, 128))[0]
    parts, (output,) = bind(trace_for_tpu(kernels.wrong_in_one_block, shape(64, 128)), [x])
    for block in range(8):
        position = block / 7
        parts.run([position])
        part = slice(*parts.locate([position])[0][0])
        assert np.array_equal(output.reshape(-1)[part], 2 * x.reshape(-1)[part]) == (block != 5)


def test_counter_that_reaches_its_limit_in_earlier_steps_shows():
    x = data(shape(64, 128))[0]
    parts, (output,) = bind(trace_for_tpu(kernels.counted_steps, shape(64, 128)), [x])
    parts.run([1.0])
    assert (output[-8:] == 0).all()


def test_inputs_may_change_between_runs():
    x = np.zeros((64, 128), np.float32)
    parts, (output,) = bind(trace_for_tpu(kernels.spread_result, shape(64, 128)), [x])
    parts.run([0.0])
    assert (output.reshape(-1)[:128] == 0).all()
    x[...] = 3
    parts.run([0.0])
    assert (output.reshape(-1)[:128] == 6).all()


DEFECTS = {
    kernels.last_rows_unwritten: ("unwritten", r"output `out0` are not written: no grid step .* writes block \(56, 0\)"),
    kernels.one_block_outside: ("out_of_bounds", r"block \(8, 0\) of x in grid step \(7,\) exceeds its shape \(64, 128\)"),
    kernels.block_visited_again: ("race", r"was written out after grid step \(0,\) and is visited again in step \(8,\)"),
    kernels.block_shared_by_cores: ("race", "differ in a parallel dimension"),
}


@pytest.mark.parametrize("function", DEFECTS, ids=lambda function: function.__name__)
def test_defect_of_the_index_maps_is_found_wherever_it_is(function):
    reason, message = DEFECTS[function]
    parts, _ = bind(trace_for_tpu(function, shape(64, 128)), data(shape(64, 128)))
    with pytest.raises(CandidateError, match=message) as caught:
        parts.locate([0.0])
    assert caught.value.reason == reason


def test_unwritten_rows_that_the_program_cuts_off_are_allowed():
    require_equal_to_complete_run(trace_for_tpu(kernels.unwritten_rows_cut_off, shape(64, 128)), data(shape(64, 128)))


def test_block_with_too_many_steps_is_refused():
    parts, _ = bind(trace_for_tpu(kernels.long_chain, shape(8, 128)), data(shape(8, 128)))
    parts.locate([0.0])
    with pytest.raises(CandidateError, match=r"one output block takes 3000 grid steps .*, the limit for interpret mode is 2000") as caught:
        parts.run([0.0])
    assert caught.value.reason == "timeout"


def sparse(kind: Any) -> np.ndarray:
    """Zeros that take no memory until they are written."""
    size, handle = int(np.prod(kind.shape)) * kind.dtype.itemsize, os.memfd_create("sparse")
    os.ftruncate(handle, size)
    memory = mmap.mmap(handle, size)
    os.close(handle)
    return np.frombuffer(memory, kind.dtype).reshape(kind.shape)


def bind_sparse(function: Any, *types: Any) -> tuple[PallasParts, list[np.ndarray], list[np.ndarray]]:
    closed = trace_for_tpu(function, *types)
    inputs = [sparse(kind) for kind in types]
    parts, outputs = bind(closed, inputs, [sparse(aval) for aval in closed.out_avals])
    return parts, inputs, outputs


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_part_of_large_arrays_takes_little_memory():
    def function(x):
        return kernels.double(jnp.pad(x, ((0, 0), (0, 56))))[:, : x.shape[1]]

    kind = shape(65_536, 8_200)
    parts, (x,), (output,) = bind_sparse(function, kind)
    x[65_000], before = 2, resident_bytes()
    parts.run([0.0, 65_000 / 65_535, 1.0])
    assert (output[65_000] == 4).all()
    assert (output[64_999] == 0).all()
    assert resident_bytes() - before < 200 << 20


def test_kernel_that_copies_its_output_itself_is_refused_where_it_cannot_run_completely():
    parts, *_ = bind_sparse(interpret_kernels.two_buffers, shape(1 << 20, 512))
    with pytest.raises(CandidateError, match=r"cannot be checked at this size.*let BlockSpecs") as caught:
        parts.run([0.0])
    assert caught.value.reason == "unsupported"


def test_arithmetic_outside_kernels_on_large_arrays_is_refused():
    parts, *_ = bind_sparse(lambda x: kernels.double(jnp.cumsum(x, axis=0)), shape(1 << 20, 512))
    with pytest.raises(CandidateError, match=r"`cumsum` outside the kernels.* cannot be checked at this size"):
        parts.run([0.0])


def test_parts_of_a_grid_with_a_million_steps_are_found():
    parts, *_ = bind_sparse(kernels.double, shape(8_000_000, 128))
    assert parts.locate([0.0, 0.5, 1.0])[0][-1] == ((8_000_000 - 8) * 128, 8_000_000 * 128)


def test_loaded_kernel_binds_the_program_of_the_size(tmp_path):
    closed = trace_for_tpu(kernels.double, shape(64, 128))
    for folder in ("programs", "inspect"):
        (tmp_path / folder).mkdir()
    (tmp_path / "programs" / "full.program").write_bytes(program_codec.encode(closed))
    (tmp_path / "inspect" / "calls.json").write_text(
        json.dumps({"full": [[["x", "float32", [64, 128]]], [], [["out", "float32", [64, 128]]]]})
    )
    (x,), output = data(shape(64, 128)), np.zeros((64, 128), np.float32)
    kernel: PartialKernel = PallasKernel(tmp_path, V5E)
    parts = kernel.bind_parts(Arguments((Array("x", "float32", x),), (), (Array("out", "float32", output),)))
    assert parts.locate([1.0]) == (((56 * 128, 64 * 128),),)
    parts.run([1.0])
    np.testing.assert_array_equal(output, np.where(np.arange(64)[:, None] < 56, 0, 2 * x))
