# selftest: task=starter/scale_shift size=full gate=check reason=mismatch
"""Right at every size that is run whole; at the full size the last block is wrong."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ROWS = 64


def kernel(x, scale, shift):
    steps = pl.cdiv(x.shape[0], ROWS)

    def body(x_ref, scale_ref, shift_ref, out_ref):
        y = x_ref[...] * scale_ref[...] + shift_ref[...]
        wrong = jnp.logical_and(x.shape[0] > 2048, pl.program_id(0) == steps - 1)
        out_ref[...] = jnp.where(wrong, -y, y)

    rows = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    vector = pl.BlockSpec((1, x.shape[1]), lambda i: (0, 0))
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(steps,),
        in_specs=[rows, vector, vector],
        out_specs=rows,
    )(x, scale[None, :], shift[None, :])
