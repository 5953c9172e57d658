# selftest: task=starter/softmax gate=screen reason=shape
"""One column, which broadcasts."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jnp.max(x_ref[...], axis=1, keepdims=True)


def kernel(x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((x.shape[0], 1), x.dtype))(x)
