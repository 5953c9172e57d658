# selftest: task=starter/scale_shift
"""Reads its blocks in the order of a table prefetched into scalar memory."""

import numpy as np

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


BLOCK = 256


def kernel(x, scale, shift):
    steps = pl.cdiv(x.shape[0], BLOCK)
    order = jnp.asarray(np.arange(steps, dtype=np.int32)[::-1].copy())

    def body(order_ref, x_ref, scale_ref, shift_ref, out_ref):
        del order_ref
        out_ref[...] = x_ref[...] * scale_ref[...] + shift_ref[...]

    row = pl.BlockSpec((1, x.shape[1]), lambda i, order: (0, 0))
    block = pl.BlockSpec((BLOCK, x.shape[1]), lambda i, order: (order[i], 0))
    spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(steps,), in_specs=[block, row, row], out_specs=block)
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid_spec=spec)(order, x, scale.reshape(1, -1), shift.reshape(1, -1))
