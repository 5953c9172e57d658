# selftest: task=starter/softmax gate=build,check reason=mismatch,nan,out_of_bounds,unwritten,alignment,unsupported
"""Promises with pl.multiple_of that an index is a multiple of eight, which is fast and false."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x):
    rows = x.shape[0]

    def body(x_ref, out_ref):
        out_ref[...] = jnp.zeros_like(out_ref)

        @pl.loop(0, pl.cdiv(rows, 60))
        def _(step):
            place = pl.multiple_of(step * 60, 8)
            out_ref[pl.ds(place, 60), :] = jax.nn.softmax(x_ref[pl.ds(place, 60), :], axis=1)

    padded = jnp.pad(x, ((0, 60), (0, 0)))
    out = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(padded.shape, x.dtype))(padded)
    return out[:rows]
