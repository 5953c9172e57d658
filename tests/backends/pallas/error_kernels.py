"""Kernels that jax or the TPU compiler rejects, each for a different reason. `record_messages` records the messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import compiler, program_codec
from evokernel.backends.pallas.chips import Chip, get_chip
from evokernel.backends.pallas.lower import lower_program, target_chip

F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
ANY, SMEM, VMEM = (pl.BlockSpec(memory_space=space) for space in (pl.ANY, pltpu.SMEM, pltpu.VMEM))
TILE = (8, 128)
KERNELS: dict[str, tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]] = {}


def shape(*size: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(size, dtype)


def rejected_kernel(*types: jax.ShapeDtypeStruct) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function in KERNELS with its argument types."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[function.__name__] = (function, list(types))
        return function

    return add


def of_value(function: Callable[..., Any], *arrays: Any, out: Any = None, **options: Any) -> Any:
    """A kernel that stores the result of `function` on its blocks."""

    def body(*refs: Any) -> None:
        refs[-1][...] = function(*(ref[...] for ref in refs[:-1]))

    return pl.pallas_call(body, out_shape=out or shape(*arrays[0].shape, dtype=arrays[0].dtype), **options)(*arrays)


def copy(x: Any, out: Any) -> None:
    out[...] = x[...]


def blocked(x: Any, block: tuple[int, ...], index: Any, **options: Any) -> Any:
    spec = pl.BlockSpec(block, index)
    return pl.pallas_call(copy, out_shape=shape(*x.shape), **{"in_specs": [spec], "out_specs": spec, **options})(x)


# Blocks.


@rejected_kernel(shape(512, 512))
def block_not_8_128(x: Any) -> Any:
    return blocked(x, (60, 100), lambda i, j: (i, j), grid=(8, 8))


@rejected_kernel(shape(1000))
def block_1d_small(x: Any) -> Any:
    return blocked(x, (100,), lambda i: (i,), grid=(10,))


@rejected_kernel(shape(512, 512))
def rank_mismatch(x: Any) -> Any:
    return blocked(x, (128, 512), lambda i: (i, 0), grid=(4,), in_specs=[pl.BlockSpec((128,), lambda i: (i,))])


@rejected_kernel(shape(512, 512))
def index_map_arity(x: Any) -> Any:
    return blocked(x, (128, 128), lambda i, j: (i, j), grid=(4, 4), in_specs=[pl.BlockSpec((128, 128), lambda i: (i, 0))])


@rejected_kernel(shape(512, 512))
def index_map_rank(x: Any) -> Any:
    return blocked(x, (128, 128), lambda i: i, grid=(4,))


@rejected_kernel(shape(512, 512))
def block_spec_order(x: Any) -> Any:
    """Older releases took the index map first."""
    spec = pl.BlockSpec(lambda i: (i, 0), (128, 512))  # type: ignore[arg-type]
    return pl.pallas_call(copy, out_shape=shape(512, 512), grid=(4,), in_specs=[spec], out_specs=spec)(x)


@rejected_kernel(shape(512, 512))
def missing_grid_outspec(x: Any) -> Any:
    spec = pl.BlockSpec((128, 512), lambda i: (i, 0))
    return pl.pallas_call(copy, out_shape=shape(512, 512), grid=(4,), in_specs=[spec])(x)


@rejected_kernel(shape(512, 512), shape(512, 512))
def specs_count(x: Any, y: Any) -> Any:
    spec = pl.BlockSpec((128, 512), lambda i: (i, 0))
    return pl.pallas_call(copy, out_shape=shape(512, 512), grid=(4,), in_specs=[spec], out_specs=spec)(x, y)


# Memory.


@rejected_kernel(shape(8192, 8192))
def vmem_oom_blocks(x: Any) -> Any:
    return blocked(x, (4096, 8192), lambda i: (i, 0), grid=(2,))


@rejected_kernel(shape(*TILE))
def vmem_oom_scratch(x: Any) -> Any:
    def body(x: Any, out: Any, scratch: Any) -> None:
        out[...] = x[...] + scratch[:8, :128]

    return pl.pallas_call(body, out_shape=shape(*TILE), scratch_shapes=[pltpu.VMEM((8192, 8192), F32)])(x)


@rejected_kernel(shape(4096, 2048), shape(4096, 2048))
def scoped_vmem_16m(x: Any, y: Any) -> Any:
    spec = pl.BlockSpec((1024, 2048), lambda i: (i, 0))
    return of_value(jnp.add, x, y, grid=(4,), in_specs=[spec, spec], out_specs=spec)


@rejected_kernel(shape(1024, 1024))
def smem_too_big(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = jnp.zeros(TILE, F32) + x[0, 0]

    return pl.pallas_call(body, out_shape=shape(*TILE), in_specs=[SMEM])(x)


# Types.


@rejected_kernel(shape(*TILE))
def f16_store(x: Any) -> Any:
    return of_value(lambda x: x.astype(jnp.float16), x, out=shape(*TILE, dtype=jnp.float16))


@rejected_kernel(*[shape(128, 128, dtype=jnp.float16)] * 2)
def f16_matmul(x: Any, y: Any) -> Any:
    return of_value(partial(jnp.dot, preferred_element_type=F32), x, y, out=shape(128, 128))


@rejected_kernel(*[shape(128, 128, dtype=I32)] * 2)
def int32_matmul(x: Any, y: Any) -> Any:
    return of_value(jnp.dot, x, y)


@rejected_kernel(shape(32, 128, dtype=jnp.int8))
def int8_add(x: Any) -> Any:
    return of_value(lambda x: x + x, x)


@rejected_kernel(shape(16, 128, dtype=BF16))
def dtype_mismatch_store(x: Any) -> Any:
    return of_value(lambda x: x * 2.0, x, out=shape(16, 128, dtype=I32))


@rejected_kernel(*[shape(128, 128)] * 2)
def high_precision(x: Any, y: Any) -> Any:
    return of_value(partial(jnp.dot, precision=lax.Precision.HIGH), x, y)


# Operations.


@rejected_kernel(shape(*TILE))
def sort(x: Any) -> Any:
    return of_value(partial(jnp.sort, axis=-1), x)


@rejected_kernel(shape(*TILE))
def cumsum(x: Any) -> Any:
    return of_value(partial(jnp.cumsum, axis=-1), x)


@rejected_kernel(shape(64, 128), shape(*TILE, dtype=I32))
def gather(x: Any, index: Any) -> Any:
    return of_value(lambda x, index: x[index[:, 0]], x, index, out=shape(*TILE))


@rejected_kernel(shape(*TILE))
def fft(x: Any) -> Any:
    return of_value(lambda x: jnp.fft.fft(x).real, x)


@rejected_kernel(shape(1, 8, 8, 128), shape(3, 3, 128, 128))
def conv_inside(x: Any, weight: Any) -> Any:
    order = ("NHWC", "HWIO", "NHWC")
    return of_value(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=order), x, weight)


@rejected_kernel(shape(*TILE))
def expm1(x: Any) -> Any:
    return of_value(jnp.expm1, x)


@rejected_kernel(shape(*TILE))
def scatter(x: Any) -> Any:
    return of_value(lambda x: x.at[0].set(0.0), x)


@rejected_kernel(shape(64, 128), shape(1, dtype=I32))
def dynamic_slice_of_value(x: Any, at: Any) -> Any:
    def body(x: Any, at: Any, out: Any) -> None:
        out[...] = lax.dynamic_slice(x[...], (at[0], 0), TILE)

    return pl.pallas_call(body, out_shape=shape(*TILE), in_specs=[VMEM, SMEM])(x, at)


@rejected_kernel(shape(10, 100))
def reshape_odd(x: Any) -> Any:
    return of_value(lambda x: x.reshape(5, 200), x, out=shape(5, 200))


@rejected_kernel(shape(8, 256))
def strided_lane(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = x[:, ::2]

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(8, 16, 128), shape(16, 128, 128))
def dot_4d_multi_contract(x: Any, y: Any) -> Any:
    return of_value(lambda x, y: jnp.einsum("ijk,jkl->il", x, y), x, y, out=shape(*TILE))


# Alignment.


def sliced(x: Any, at: Any, body: Any, out: Any) -> Any:
    return pl.pallas_call(body, out_shape=out, in_specs=[VMEM, SMEM])(x, at)


@rejected_kernel(shape(8, 512), shape(1, dtype=I32))
def dynamic_lane_slice(x: Any, at: Any) -> Any:
    def body(x: Any, at: Any, out: Any) -> None:
        out[...] = x[:, pl.ds(at[0], 128)]

    return sliced(x, at, body, shape(*TILE))


@rejected_kernel(shape(512, 128, dtype=BF16), shape(1, dtype=I32))
def dynamic_row_slice_bf16(x: Any, at: Any) -> Any:
    def body(x: Any, at: Any, out: Any) -> None:
        out[...] = x[pl.ds(at[0], 8), :]

    return sliced(x, at, body, shape(*TILE, dtype=BF16))


def copied(x: Any, rows: Any, columns: Any) -> Any:
    def body(x: Any, out: Any, buffer: Any, arrived: Any) -> None:
        fetch = pltpu.make_async_copy(x.at[rows, columns], buffer, arrived)
        fetch.start()
        fetch.wait()
        out[...] = buffer[...]

    scratch = [pltpu.VMEM(TILE, x.dtype), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, out_shape=shape(*TILE, dtype=x.dtype), in_specs=[ANY], scratch_shapes=scratch)(x)


@rejected_kernel(shape(8, 512))
def unaligned_dma_lanes(x: Any) -> Any:
    return copied(x, slice(None), pl.ds(3, 128))


@rejected_kernel(shape(64, 128, dtype=BF16))
def unaligned_dma_rows_bf16(x: Any) -> Any:
    return copied(x, pl.ds(3, 8), slice(None))


# Shapes and references.


@rejected_kernel(shape(*TILE))
def shape_mismatch_store(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = x[:4, :]

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE))
def oob_static_slice(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = x[pl.ds(4, 8), :]

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE), shape(8, 64))
def shapes_do_not_broadcast(x: Any, y: Any) -> Any:
    return of_value(lambda x, y: x + y, x, y)


@rejected_kernel(shape(128, 64), shape(128, 64))
def dot_sizes(x: Any, y: Any) -> Any:
    return of_value(jnp.dot, x, y, out=shape(128, 64))


@rejected_kernel(shape(*TILE))
def hbm_load(x: Any) -> Any:
    return pl.pallas_call(copy, out_shape=shape(*TILE), in_specs=[ANY])(x)


@rejected_kernel(shape(*TILE))
def scalar_store_vmem(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[0, 0] = x[0, 0] * 2

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


# Python.


@rejected_kernel(shape(*TILE))
def returns_a_value(x: Any) -> Any:
    return pl.pallas_call(lambda x, out: (out.__setitem__(..., x[...]), 1)[1], out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE))
def captured_const(x: Any) -> Any:
    table = jnp.asarray(np.arange(1024, dtype=np.float32).reshape(TILE))
    return of_value(lambda x: x + table, x)


@rejected_kernel(shape(*TILE))
def python_if_traced(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = x[...] if pl.program_id(0) == 0 else x[...] * 2

    spec = pl.BlockSpec(TILE, lambda i: (0, 0))
    return pl.pallas_call(body, out_shape=shape(*TILE), grid=(1,), in_specs=[spec], out_specs=spec)(x)


@rejected_kernel(shape(*TILE))
def python_range_traced(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        for _ in range(pl.program_id(0)):
            out[...] = x[...]

    return pl.pallas_call(body, out_shape=shape(*TILE), grid=(1,))(x)


@rejected_kernel(shape(*TILE))
def numpy_of_tracer(x: Any) -> Any:
    return of_value(lambda x: np.exp(x), x)


@rejected_kernel(shape(*TILE))
def wrong_argument_count(x: Any) -> Any:
    return pl.pallas_call(lambda x, y, out: None, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE))
def name_error(x: Any) -> Any:
    return of_value(lambda x: jnp.exp(y), x)  # type: ignore[name-defined]  # noqa: F821


@rejected_kernel(shape(*TILE))
def old_load(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = pl.load(x, (slice(None), slice(None)))  # type: ignore[attr-defined]

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE))
def old_compiler_params(x: Any) -> Any:
    options = pltpu.TPUCompilerParams(dimension_semantics=("parallel",))  # type: ignore[attr-defined]
    return pl.pallas_call(copy, out_shape=shape(*TILE), compiler_params=options)(x)


@rejected_kernel(shape(*TILE))
def program_id_outside(x: Any) -> Any:
    return of_value(lambda x: x, x * pl.program_id(0))


@rejected_kernel(shape(*TILE))
def item_assignment(x: Any) -> Any:
    y = of_value(lambda x: x, x)
    y[0] = 1.0
    return y


@rejected_kernel(shape(*TILE))
def reference_as_array(x: Any) -> Any:
    def body(x: Any, out: Any) -> None:
        out[...] = jnp.where(x > 0, x, 0.0)

    return pl.pallas_call(body, out_shape=shape(*TILE))(x)


@rejected_kernel(shape(*TILE))
def unknown_option(x: Any) -> Any:
    return pl.pallas_call(copy, out_shape=shape(*TILE), num_warps=4)(x)  # type: ignore[call-arg]


@rejected_kernel(shape(*TILE))
def semantics_count(x: Any) -> Any:
    options = pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    return blocked(x, TILE, lambda i: (0, 0), grid=(1,), compiler_params=options)


def lower_kernel(name: str, chip: Chip) -> tuple[str, str, bytes]:
    """Class and message of the exception that jax raises when it traces or lowers a kernel; the lowered program if it raises none."""
    function, types = KERNELS[name]
    try:
        with target_chip(chip):
            closed = program_codec.decode(program_codec.encode(jax.make_jaxpr(function)(*types)))
        return "", "", lower_program(closed, chip)
    except Exception as error:
        return type(error).__name__, str(error).replace(f"{Path(__file__).parent}/", ""), b""


def record_messages(chip: Chip) -> dict[str, dict[str, str]]:
    """The message of jax or of the compiler for every kernel of this file."""
    messages = {}
    with TemporaryDirectory() as folder:
        for name in KERNELS:
            kind, message, program = lower_kernel(name, chip)
            if program:
                try:
                    compiler.compile_program(program, chip.topology, Path(folder))
                except compiler.CompileError as error:
                    message = str(error)
            messages[name] = {"kind": kind, "message": message.strip()}
    return messages


if __name__ == "__main__":  # run this after an update of jax or libtpu
    Path(__file__).with_name("errors.json").write_text(json.dumps(record_messages(get_chip("v5e")), indent=1) + "\n")
