# selftest: task=starter/softmax gate=check reason=nan,unwritten,race,mismatch
"""Writes every other block."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    spec = pl.BlockSpec((64, x.shape[1]), lambda i: (2 * i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 128),), in_specs=[spec], out_specs=spec)(x)
