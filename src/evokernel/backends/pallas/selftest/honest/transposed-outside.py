# selftest: task=starter/sum_rows
"""Pads, transposes and reshapes outside the kernel, which sums over the first axis."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


COLUMNS = 256


def kernel(x):
    rows, columns = x.shape
    many = pl.cdiv(rows, COLUMNS) * COLUMNS
    turned = jnp.pad(x, ((0, many - rows), (0, 0))).T

    def body(x_ref, out_ref):
        out_ref[...] = jnp.sum(x_ref[...], axis=0, keepdims=True)

    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((1, many), x.dtype),
        grid=(many // COLUMNS,),
        in_specs=[pl.BlockSpec((columns, COLUMNS), lambda j: (0, j))],
        out_specs=pl.BlockSpec((1, COLUMNS), lambda j: (0, j)),
    )
    return jnp.squeeze(call(turned), axis=0)[:rows]
