# selftest: task=starter/softmax gate=check reason=mismatch
"""An exponential of four terms."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    x = (x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True)) / 16
    term = 1 + x * (1 + x * (0.5 + x * (1 / 6 + x / 24)))
    weights = term ** 16
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
