# selftest: task=starter/softmax gate=screen reason=forbidden
"""Requests interpret mode without floating-point operations."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    mode = pltpu.InterpretParams(skip_floating_point_ops=True)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=mode)(x)
