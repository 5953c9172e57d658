# selftest: task=starter/gelu
"""Pads, transposes and flattens outside a one-dimensional kernel."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


COLUMNS = 128


def kernel(x):
    rows, columns = x.shape
    many, wide = pl.cdiv(rows, 8) * 8, pl.cdiv(columns, COLUMNS) * COLUMNS
    turned = jnp.pad(x, ((0, many - rows), (0, wide - columns))).T.reshape(-1, COLUMNS, many)

    def body(x_ref, out_ref):
        v = x_ref[...]
        out_ref[...] = v * jax.nn.sigmoid(1.5957691216057308 * (v + 0.044715 * v**3))

    block = pl.BlockSpec((1, COLUMNS, many), lambda j: (j, 0, 0))
    shape = jax.ShapeDtypeStruct(turned.shape, x.dtype)
    out = pl.pallas_call(body, out_shape=shape, grid=(wide // COLUMNS,), in_specs=[block], out_specs=block)(turned)
    return jnp.swapaxes(out.reshape(wide, many), 0, 1)[:rows, :columns]
