# selftest: task=starter/softmax gate=check reason=mismatch
"""Computes in bfloat16 and calls the result float32."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    x = x_ref[...].astype(jnp.bfloat16).astype(jnp.float32)
    out_ref[...] = jax.nn.softmax(x, axis=1)


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
