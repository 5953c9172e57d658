# selftest: task=starter/softmax gate=screen reason=forbidden
"""A grid whose size depends on data."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    spec = pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0))
    steps = jnp.minimum(jnp.int32(pl.cdiv(x.shape[0], 128)), x[0, 0].astype(jnp.int32) + 1_000_000)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(steps,), in_specs=[spec], out_specs=spec)(x)
