"""Small programs that exercise most of the compiler's code, so that an emulator has translated it before the first kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.lower import lower_program, target_chip

SIDE, BLOCK = 512, 256


def lower_warm_up_programs(chip: Chip) -> Iterator[bytes]:
    """A matrix multiplication and a softmax as Pallas kernels, and both again as XLA operations."""
    for function, dtype in ((multiply, jnp.bfloat16), (normalise, jnp.float32), (softmax_of_product, jnp.float32)):
        matrix = jax.ShapeDtypeStruct((SIDE, SIDE), dtype)
        with target_chip(chip):
            closed = jax.make_jaxpr(function)(matrix, matrix)
        yield lower_program(closed, chip)


def multiply(x: Any, y: Any) -> Any:
    """A blocked matrix product that accumulates in scratch memory."""

    def body(x_ref: Any, y_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        def clear() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        pl.when(pl.program_id(2) == 0)(clear)
        sum_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        out_ref[...] = sum_ref[...].astype(out_ref.dtype)

    return pl.pallas_call(
        body,
        grid=(SIDE // BLOCK,) * 3,
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)), pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((SIDE, SIDE), x.dtype),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
    )(x, y)


def normalise(x: Any, y: Any) -> Any:
    """The softmax of the rows of a sum."""

    def body(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        out_ref[...] = jax.nn.softmax(x_ref[...] + y_ref[...], axis=-1)

    rows = pl.BlockSpec((BLOCK, SIDE), lambda i: (i, 0))
    return pl.pallas_call(
        body, grid=(SIDE // BLOCK,), in_specs=[rows, rows], out_specs=rows, out_shape=jax.ShapeDtypeStruct((SIDE, SIDE), x.dtype)
    )(x, y)


def softmax_of_product(x: Any, y: Any) -> Any:
    """A matrix product and a softmax as XLA operations."""
    return jax.nn.softmax(x @ y + y, axis=-1)
