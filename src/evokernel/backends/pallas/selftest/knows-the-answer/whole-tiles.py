# selftest: task=starter/softmax gate=check reason=mismatch,nan,unwritten
"""Sums only over complete tiles of columns."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    whole = max(128, x_ref.shape[1] // 128 * 128)
    weights = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights[:, :whole], axis=1, keepdims=True)


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
