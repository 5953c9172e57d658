# selftest: task=starter/softmax gate=screen reason=forbidden
"""Calls Python on the host from inside the kernel."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    jax.debug.callback(lambda value: None, x_ref[0, 0])
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
