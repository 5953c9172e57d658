"""Kernels for the tests of interpret mode: correct ones, and one for every kind of bug that it must detect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

FLOAT = jnp.float32
ANY = pl.BlockSpec(memory_space=pl.ANY)


def shape(*size: int, dtype: Any = FLOAT) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(size, dtype)


def trace_for_tpu(function: Callable[..., Any], *types: Any) -> Any:
    """Traces a function for a TPU with shapes only, as the candidate process does."""
    device = jax.sharding.AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)):
        return jax.make_jaxpr(function)(*types)


def data(*types: Any, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(kind.shape).astype(kind.dtype) for kind in types]


def rows(block: int, width: int) -> pl.BlockSpec:
    return pl.BlockSpec((block, width), lambda i: (i, 0))


def fixed_block(*block: int) -> pl.BlockSpec:
    return pl.BlockSpec(block, lambda *_: (0,) * len(block))


# Correct kernels.


def softmax(x: Any, block: int = 16) -> Any:
    def body(x: Any, o: Any) -> None:
        e = jnp.exp(x[...] - x[...].max(1, keepdims=True))
        o[...] = e / e.sum(1, keepdims=True)

    grid = (pl.cdiv(x.shape[0], block),)
    spec = rows(block, x.shape[1])
    return pl.pallas_call(body, out_shape=shape(*x.shape), grid=grid, in_specs=[spec], out_specs=spec)(x)


def over_its_input(x: Any) -> Any:
    """The second kernel overwrites its input, whose last block is incomplete."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    given: dict[str, Any] = {"grid": (4,), "in_specs": [rows(16, 250)], "out_specs": rows(16, 250), "input_output_aliases": {0: 0}}
    return pl.pallas_call(body, out_shape=shape(*x.shape), **given)(softmax(x))


def row_by_row(x: Any) -> Any:
    def body(x: Any, o: Any, arrived: Any) -> None:
        copies = [pltpu.make_async_copy(x.at[i], o.at[i], arrived) for i in range(8)]
        jax.tree.map(lambda copy: copy.start(), copies)
        jax.tree.map(lambda copy: copy.wait(), copies)

    given: dict[str, Any] = {"grid": (8,), "in_specs": [rows(8, 128)], "out_specs": rows(8, 128)}
    return pl.pallas_call(body, out_shape=shape(*x.shape), scratch_shapes=[pltpu.SemaphoreType.DMA], **given)(x)


def matmul(x: Any, y: Any, block: int = 128, precision: Any = None) -> Any:
    def body(x: Any, y: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=FLOAT, precision=precision)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            o[...] = total[...].astype(o.dtype)

    (m, k), n, b = x.shape, y.shape[1], block
    return pl.pallas_call(
        body,
        out_shape=shape(m, n, dtype=x.dtype),
        grid=(m // b, n // b, k // b),
        in_specs=[pl.BlockSpec((b, b), lambda i, j, k: (i, k)), pl.BlockSpec((b, b), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((b, b), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((b, b), FLOAT)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)


def convolution(x: Any, w: Any) -> Any:
    """3 x 3, channels last, padded outside the kernel."""

    def body(x: Any, w: Any, o: Any) -> None:
        height, width, channels = o.shape
        total = jnp.zeros((height * width, channels), FLOAT)
        for i in range(3):
            for j in range(3):
                window = x[pl.ds(i, height), pl.ds(j, width), :].reshape(height * width, -1)
                total += jnp.dot(window, w[i, j], preferred_element_type=FLOAT)
        o[...] = total.reshape(height, width, channels)

    n, height, width, channels = x.shape
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    spec = pl.BlockSpec((None, height + 2, width + 2, channels), lambda i: (i, 0, 0, 0))
    out = pl.BlockSpec((None, height, width, w.shape[3]), lambda i: (i, 0, 0, 0))
    return pl.pallas_call(
        body, out_shape=shape(n, height, width, w.shape[3]), grid=(n,), in_specs=[spec, fixed_block(*w.shape)], out_specs=out
    )(padded, w)


def two_buffers(x: Any, block: int = 64) -> Any:
    """Explicit transfers: the next block is copied while the current one is processed."""
    steps, width = x.shape[0] // block, x.shape[1]

    def body(x: Any, o: Any, inside: Any, outside: Any, arrived: Any, left: Any) -> None:
        def fetch(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(x.at[pl.ds(i * block, block), :], inside.at[slot], arrived.at[slot])

        def put(i: Any, slot: Any) -> Any:
            return pltpu.make_async_copy(outside.at[slot], o.at[pl.ds(i * block, block), :], left.at[slot])

        fetch(0, 0).start()

        def step(i: Any, _: Any) -> Any:
            slot = i % 2

            @pl.when(i + 1 < steps)
            def _() -> None:
                fetch(i + 1, 1 - slot).start()

            fetch(i, slot).wait()

            @pl.when(i >= 2)
            def _() -> None:
                put(i - 2, slot).wait()

            outside[slot] = inside[slot] * 2
            put(i, slot).start()
            return 0

        jax.lax.fori_loop(0, steps, step, 0)
        for last in range(max(0, steps - 2), steps):
            put(last, last % 2).wait()

    buffers = [pltpu.VMEM((2, block, width), FLOAT)] * 2
    semaphores = [pltpu.SemaphoreType.DMA((2,))] * 2
    return pl.pallas_call(body, out_shape=shape(*x.shape), in_specs=[ANY], out_specs=ANY, scratch_shapes=buffers + semaphores)(x)


def inner_pipeline(x: Any, y: Any, block: int = 64) -> Any:
    def inner(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    def body(x: Any, y: Any, o: Any) -> None:
        spec = rows(block, x.shape[1])
        pltpu.emit_pipeline(inner, grid=(x.shape[0] // block,), in_specs=[spec, spec], out_specs=[spec])(x, y, o)

    return pl.pallas_call(body, out_shape=shape(*x.shape), in_specs=[ANY, ANY], out_specs=ANY)(x, y)


def loop(x: Any) -> Any:
    """Row sums, eight rows at a time."""

    def body(x: Any, o: Any) -> None:
        def step(i: Any, total: Any) -> Any:
            return total + x[pl.ds(i * 8, 8), :]

        o[...] = jax.lax.fori_loop(0, x.shape[0] // 8, step, jnp.zeros((8, x.shape[1]), FLOAT))

    return pl.pallas_call(body, out_shape=shape(8, x.shape[1]))(x)


# Wrong ones; each says what it does wrong.


def uninitialised_total(x: Any) -> Any:
    def body(x: Any, o: Any, total: Any) -> None:
        total[...] += x[...]

        @pl.when(pl.program_id(0) == pl.num_programs(0) - 1)
        def _() -> None:
            o[...] = total[...]

    spec, total = rows(128, 128), [pltpu.VMEM((128, 128), FLOAT)]
    return pl.pallas_call(
        body, out_shape=shape(128, 128), grid=(4,), in_specs=[spec], out_specs=fixed_block(128, 128), scratch_shapes=total
    )(x)


BUFFER = [pltpu.VMEM((128, 128), FLOAT), pltpu.SemaphoreType.DMA]


def read_before_wait(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        copy = pltpu.make_async_copy(x, buffer, arrived)
        copy.start()
        o[...] = buffer[...] * 2
        copy.wait()

    return pl.pallas_call(body, out_shape=shape(128, 128), in_specs=[ANY], scratch_shapes=BUFFER)(x)


def output_not_waited(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, left: Any) -> None:
        buffer[...] = x[...] * 2
        pltpu.make_async_copy(buffer, o, left).start()

    return pl.pallas_call(body, out_shape=shape(128, 128), out_specs=ANY, scratch_shapes=BUFFER)(x)


def overwritten_before_wait(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, left: Any) -> None:
        def copy(i: int) -> Any:
            return pltpu.make_async_copy(buffer, o.at[pl.ds(i * 128, 128), :], left)

        for i in range(4):
            buffer[...] = x[pl.ds(i * 128, 128), :] * 2
            copy(i).start()
        for i in range(4):
            copy(i).wait()

    return pl.pallas_call(body, out_shape=shape(512, 128), out_specs=ANY, scratch_shapes=BUFFER)(x)


def read_outside(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(pl.program_id(0) * 64 + 8, 64), :]

    return pl.pallas_call(body, out_shape=shape(128, 128), grid=(2,), in_specs=[fixed_block(128, 128)], out_specs=rows(64, 128))(x)


def write_outside(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[pl.ds(pl.program_id(0) * 8 + 124, 8), :] = x[:8, :]

    return pl.pallas_call(body, out_shape=shape(128, 128), grid=(1,), in_specs=[fixed_block(128, 128)], out_specs=fixed_block(128, 128))(x)


def block_outside(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    spec = pl.BlockSpec((128, 128), lambda i: (i + 1, 0))
    return pl.pallas_call(body, out_shape=shape(256, 128), grid=(2,), in_specs=[spec], out_specs=rows(128, 128))(x)


def block_not_written(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = x[...]

    return pl.pallas_call(body, out_shape=shape(256, 128), grid=(2,), in_specs=[rows(128, 128)], out_specs=rows(128, 128))(x)


def padding_summed(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...].reshape(16, 8, 128).sum(0)

    return pl.pallas_call(body, out_shape=shape(8, 128), grid=(2,), in_specs=[rows(128, 128)], out_specs=fixed_block(8, 128))(x)


def total_shared(x: Any) -> Any:
    """Sums over a dimension that may be split between cores."""

    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    settings = pltpu.CompilerParams(dimension_semantics=("parallel",))
    spec = rows(128, 128)
    return pl.pallas_call(
        body, out_shape=shape(128, 128), grid=(4,), in_specs=[spec], out_specs=fixed_block(128, 128), compiler_params=settings
    )(x)


def block_revisited(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    spec, out = pl.BlockSpec((128, 128), lambda k, j: (2 * k + j, 0)), pl.BlockSpec((128, 128), lambda k, j: (j, 0))
    return pl.pallas_call(body, out_shape=shape(256, 128), grid=(2, 2), in_specs=[spec], out_specs=out)(x)


def odd_block(x: Any) -> Any:
    """Correct in interpret mode; the compiler rejects the shape of the block."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    spec = rows(10, 130)
    return pl.pallas_call(body, out_shape=shape(100, 130), grid=(10,), in_specs=[spec], out_specs=spec)(x)


def transfer_left_over(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        copy = pltpu.make_async_copy(x, buffer, arrived)
        copy.start()
        copy.wait()
        o[...] = buffer[...]
        copy.start()

    return pl.pallas_call(body, out_shape=shape(128, 128), in_specs=[ANY], scratch_shapes=BUFFER)(x)


def scratch_shared(x: Any) -> Any:
    """Keeps a running total in scratch over a dimension that may be split between cores."""

    def body(x: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]
        o[...] = total[...]

    spec, settings = rows(8, 128), pltpu.CompilerParams(dimension_semantics=("parallel",))
    scratch = [pltpu.VMEM((8, 128), FLOAT)]
    return pl.pallas_call(
        body, out_shape=shape(64, 128), grid=(8,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch, compiler_params=settings
    )(x)


def waits_for_ever(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        copy = pltpu.make_async_copy(x, buffer, arrived)
        copy.start()
        copy.wait()
        copy.wait()
        o[...] = buffer[...]

    return pl.pallas_call(body, out_shape=shape(128, 128), in_specs=[ANY], scratch_shapes=BUFFER)(x)


def negative_index(x: Any) -> Any:
    """numpy would interpret row -1 as the last row."""

    def body(x: Any, o: Any) -> None:
        o[0, :] = x[pl.program_id(0) - 1, :]

    return pl.pallas_call(body, out_shape=shape(1, 128), grid=(1,), in_specs=[fixed_block(8, 128)], out_specs=fixed_block(1, 128))(x)


def race_then_good(x: Any) -> Any:
    """The race is in the first of two kernels, inside a nested call."""
    return odd_block(jnp.pad(jax.jit(read_before_wait)(x), ((0, 0), (0, 2)))[:100])


def strided_access(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[pl.ds(0, 8, stride=2), :] = x[pl.ds(1, 8, stride=2), :]
        o[pl.ds(1, 8, stride=2), :] = x[pl.ds(0, 8, stride=2), :]

    return pl.pallas_call(body, out_shape=shape(16, 128))(x)


def two_kernels(x: Any, y: Any) -> Any:
    """Two kernels, one of them nested, and layout around them."""
    return jax.jit(softmax)(matmul(x, y, precision=jax.lax.Precision.HIGHEST).T)


def two_transfers_collide(x: Any) -> Any:
    def body(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        copies = [pltpu.make_async_copy(x.at[pl.ds(i * 128, 128)], buffer, arrived.at[i]) for i in range(2)]
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()
        o[...] = buffer[...]

    scratch = [pltpu.VMEM((128, 128), FLOAT), pltpu.SemaphoreType.DMA((2,))]
    return pl.pallas_call(body, out_shape=shape(128, 128), in_specs=[ANY], scratch_shapes=scratch)(x)


def reference_reshaped(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x.reshape(8, 256)[...].reshape(16, 128)

    return pl.pallas_call(body, out_shape=shape(16, 128))(x)
