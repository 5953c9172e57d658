# selftest: task=starter/scale_shift size=full
"""A plain kernel at a size of which only parts are run."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ROWS = 64


def kernel(x, scale, shift):
    steps = pl.cdiv(x.shape[0], ROWS)

    def body(x_ref, scale_ref, shift_ref, out_ref):
        y = x_ref[...] * scale_ref[...] + shift_ref[...]
        out_ref[...] = y

    rows = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    vector = pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(steps,),
        in_specs=[rows, vector, vector],
        out_specs=rows,
    )(x, scale[None, :], shift[None, :])
