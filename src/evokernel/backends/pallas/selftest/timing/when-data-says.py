# selftest: task=starter/softmax gate=time reason=no_latency
"""Computes only if the data satisfies a condition, which it always does."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jnp.zeros_like(out_ref)

    @pl.when(jnp.max(x_ref[:1, :]) > -1e30)
    def _():
        out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
