# selftest: task=starter/softmax gate=check reason=mismatch,nan,unwritten
"""Is correct at the published size, and fast but wrong at others."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    right = x_ref.shape[1] == 1024
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1) if right else x_ref[...]


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
