# selftest: task=starter/cumsum gate=screen reason=forbidden
"""XLA computes the running sum as a product with a triangular matrix."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


def kernel(x):
    return copied(jnp.dot(x, jnp.triu(jnp.ones((x.shape[1], x.shape[1]), x.dtype)), precision="highest"))
