"""Kernels for tests of running in parts: forms of state that steps carry, of operations around kernels, and of defects at one place."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from interpret_kernels import ANY, FLOAT, fixed_block, rows, shape
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 8


def run_rows(body: Any, x: Any, *more: Any, out: Any = None, **options: Any) -> Any:
    """A kernel with one step per block of rows."""
    given: dict[str, Any] = {
        "grid": (pl.cdiv(x.shape[0], BLOCK),),
        "in_specs": [rows(BLOCK, x.shape[1])],
        "out_specs": rows(BLOCK, x.shape[1]),
    }
    return pl.pallas_call(body, out_shape=out or shape(*x.shape), **{**given, **options})(x, *more)


# State that one step leaves to the next.


def running_sum(x: Any) -> Any:
    """Sums along the columns; each row of blocks starts anew."""

    def body(x: Any, o: Any, carry: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            carry[...] = jnp.zeros_like(carry)

        carry[...] += x[...].sum(axis=1, keepdims=True)
        o[...] = x[...] + carry[...]

    spec = pl.BlockSpec((BLOCK, 128), lambda i, j: (i, j))
    grid = (x.shape[0] // BLOCK, x.shape[1] // 128)
    scratch = [pltpu.VMEM((BLOCK, 1), FLOAT)]
    return pl.pallas_call(body, out_shape=shape(*x.shape), grid=grid, in_specs=[spec], out_specs=spec, scratch_shapes=scratch)(x)


def total_by_selection(x: Any) -> Any:
    """Selects between a first value and the total so far, which a part must not need."""

    def body(x: Any, o: Any, total: Any) -> None:
        first = pl.program_id(1) == 0
        before = jnp.where(first, 0.0, total[...])
        total[...] = before + x[...]
        o[...] = jnp.where(first, x[...], jnp.maximum(o[...] * 2, x[...])) + total[...]

    spec = pl.BlockSpec((BLOCK, 128), lambda i, j: (i, 0))
    grid = (x.shape[0] // BLOCK, x.shape[1] // 128)
    given: dict[str, Any] = {"in_specs": [pl.BlockSpec((BLOCK, 128), lambda i, j: (i, j))], "out_specs": spec}
    return pl.pallas_call(body, out_shape=shape(x.shape[0], 128), grid=grid, scratch_shapes=[pltpu.VMEM((BLOCK, 128), FLOAT)], **given)(x)


def counted_steps(x: Any) -> Any:
    """Right until a counter in SMEM reaches the seventh step: what a cheat would do that no single step shows."""

    def body(x: Any, o: Any, count: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            count[0] = 0

        count[0] = count[0] + 1
        o[...] = jnp.where(count[0] > 6, 0.0, x[...])

    return run_rows(body, x, scratch_shapes=[pltpu.SMEM((1,), jnp.int32)])


def next_block_copied_early(x: Any) -> Any:
    """Each step starts the copy that the next one waits for."""

    def body(x: Any, o: Any, slots: Any, arrived: Any) -> None:
        i = pl.program_id(0)

        def fetch(step: Any) -> Any:
            return pltpu.make_async_copy(x.at[pl.ds(step * BLOCK, BLOCK), :], slots.at[step % 2], arrived.at[step % 2])

        @pl.when(i == 0)
        def _() -> None:
            fetch(0).start()

        @pl.when(i + 1 < pl.num_programs(0))
        def _() -> None:
            fetch(i + 1).start()

        fetch(i).wait()
        o[...] = slots[i % 2] * 2

    scratch = [pltpu.VMEM((2, BLOCK, x.shape[1]), FLOAT), pltpu.SemaphoreType.DMA((2,))]
    return run_rows(body, x, in_specs=[ANY], scratch_shapes=scratch)


def next_step_signalled(x: Any) -> Any:
    """Each step but the last signals a semaphore that the next one waits for."""

    def body(x: Any, o: Any, ready: Any) -> None:
        @pl.when(pl.program_id(0) > 0)
        def _() -> None:
            pl.semaphore_wait(ready, 1)

        @pl.when(pl.program_id(0) + 1 < pl.num_programs(0))
        def _() -> None:
            pl.semaphore_signal(ready, 1)

        o[...] = x[...] * 2

    return run_rows(body, x, scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def sum_in_an_output(x: Any) -> Any:
    """The second output accumulates over the columns, and the first depends on its value so far."""

    def body(x: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += x[...]
        o[...] = x[...] - total[...]

    spec, sums = pl.BlockSpec((BLOCK, 128), lambda i, j: (i, j)), pl.BlockSpec((BLOCK, 128), lambda i, j: (i, 0))
    grid, out = (x.shape[0] // BLOCK, x.shape[1] // 128), [shape(*x.shape), shape(x.shape[0], 128)]
    return pl.pallas_call(body, out_shape=out, grid=grid, in_specs=[spec], out_specs=[spec, sums])(x)


def input_buffer_changed(x: Any) -> Any:
    """Each step adds to the buffer of an input block that stays the same."""

    def body(x: Any, fixed: Any, o: Any) -> None:
        fixed[...] = fixed[...] + 1
        o[...] = x[...] + fixed[...]

    return run_rows(body, x, x[:BLOCK], in_specs=[rows(BLOCK, x.shape[1]), fixed_block(BLOCK, x.shape[1])])


def two_passes(x: Any) -> Any:
    """The first pass sums all rows, the second one uses the sum."""

    def body(x: Any, o: Any, total: Any) -> None:
        @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] += x[...].sum(axis=0, keepdims=True)

        @pl.when(pl.program_id(0) == 1)
        def _() -> None:
            o[...] = x[...] - total[...]

    width = x.shape[1]
    return pl.pallas_call(
        body,
        out_shape=shape(*x.shape),
        grid=(2, x.shape[0] // BLOCK),
        in_specs=[pl.BlockSpec((BLOCK, width), lambda p, i: (i, 0))],
        out_specs=pl.BlockSpec((BLOCK, width), lambda p, i: (p * i, 0)),
        scratch_shapes=[pltpu.VMEM((1, width), FLOAT)],
    )(x)


# Operations around kernels.


def double(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    return run_rows(body, x, out=shape(*x.shape, dtype=x.dtype))


def layouts_around(x: Any) -> Any:
    """Pads, transposes, joins, splits, reverses and casts the operands and results of two kernels."""
    padded = jnp.pad(x, ((1, 2), (0, 3)), constant_values=1.5).T[::-1]
    left = double(padded)
    right = double(jnp.concatenate([left[:, 4:], left[:, :4]], axis=1)[1::2])
    first, second = jnp.split(right[:60].T.reshape(-1, 30), 2, axis=1)
    joined = jnp.concatenate([first, second[:40], first], axis=0).astype(jnp.bfloat16)
    return jnp.pad(joined, ((0, 5), (2, 0))).reshape(-1), left.T.reshape(1, -1)


def spread_result(x: Any) -> Any:
    """Every element of the kernel's output appears several times in the program's output."""
    return jnp.broadcast_to(double(x)[:, None, :], (x.shape[0], 3, x.shape[1]))


def gathered_rows(x: Any, order: Any) -> Any:
    """A prefetched table, which is an input, selects the row blocks."""

    def body(table: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + table[0].astype(FLOAT)

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(x.shape[0] // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK, x.shape[1]), lambda i, table: (table[i], 0))],
        out_specs=pl.BlockSpec((BLOCK, x.shape[1]), lambda i, table: (i, 0)),
    )
    return pl.pallas_call(body, out_shape=shape(*x.shape), grid_spec=grid)(order, x)


def scattered_rows(x: Any, order: Any) -> Any:
    """A prefetched table, which is an input, selects the output blocks."""

    def body(table: Any, x: Any, o: Any) -> None:
        o[...] = x[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(x.shape[0] // BLOCK,),
        in_specs=[pl.BlockSpec((BLOCK, x.shape[1]), lambda i, table: (i, 0))],
        out_specs=pl.BlockSpec((BLOCK, x.shape[1]), lambda i, table: (table[i], 0)),
    )
    return pl.pallas_call(body, out_shape=shape(*x.shape), grid_spec=grid)(order, x)


def rows_copied_by_the_kernel(x: Any) -> Any:
    """Inputs stay in HBM; each step copies its rows."""

    def body(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        pltpu.make_async_copy(x.at[pl.ds(pl.program_id(0) * BLOCK, BLOCK), :], buffer, arrived).start()
        pltpu.make_async_copy(x.at[pl.ds(pl.program_id(0) * BLOCK, BLOCK), :], buffer, arrived).wait()
        o[...] = buffer[...] * 2

    scratch = [pltpu.VMEM((BLOCK, x.shape[1]), FLOAT), pltpu.SemaphoreType.DMA]
    return run_rows(body, x, in_specs=[ANY], scratch_shapes=scratch)


def windows(x: Any) -> Any:
    """Overlapping input blocks, which start at any row."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[:BLOCK, :] + x[BLOCK:, :]

    spec = pl.BlockSpec((pl.Element(2 * BLOCK), pl.Element(128)), lambda i: (i * BLOCK, 0))
    return run_rows(
        body, x, in_specs=[spec], out=shape(x.shape[0] - BLOCK, 128), grid=(x.shape[0] // BLOCK - 1,), out_specs=rows(BLOCK, 128)
    )


# Defects at one place.


def wrong_in_one_block(x: Any, block: int = 5) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.where(pl.program_id(0) == block, x[...], x[...] * 2)

    return run_rows(body, x)


def last_rows_unwritten(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    return run_rows(body, x, grid=(x.shape[0] // BLOCK - 1,))


def unwritten_rows_cut_off(x: Any) -> Any:
    return last_rows_unwritten(x)[:-BLOCK]


def one_block_outside(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    return run_rows(body, x, in_specs=[pl.BlockSpec((BLOCK, 128), lambda i: (i + i // 5, 0))])


def block_visited_again(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    return run_rows(
        body,
        x,
        grid=(x.shape[0] // BLOCK + 1,),
        in_specs=[fixed_block(BLOCK, 128)],
        out_specs=pl.BlockSpec((BLOCK, 128), lambda i: (i % 8, 0)),
    )


def block_shared_by_cores(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    parallel = pltpu.CompilerParams(dimension_semantics=("parallel",))
    return run_rows(body, x, out=shape(BLOCK, 128), out_specs=fixed_block(BLOCK, 128), compiler_params=parallel)


def long_chain(x: Any, steps: int = 3000) -> Any:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    return run_rows(body, x, grid=(steps,), in_specs=[fixed_block(BLOCK, 128)], out=shape(BLOCK, 128), out_specs=fixed_block(BLOCK, 128))


def tail_by_iota(x: Any) -> Any:
    """The last block is incomplete; the kernel masks its sum."""

    def body(x: Any, o: Any) -> None:
        row = pl.program_id(0) * BLOCK + jax.lax.broadcasted_iota(jnp.int32, (BLOCK, 128), 0)
        o[...] = x[...] + jnp.where(row < 61, x[...], 0.0).sum(axis=0, keepdims=True)

    return run_rows(body, x)
