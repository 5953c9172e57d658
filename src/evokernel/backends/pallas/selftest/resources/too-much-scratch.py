# selftest: task=starter/softmax gate=build reason=vmem
"""Requests more scratch memory than the chip has."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref, scratch):
    scratch[...] = jnp.zeros_like(scratch)
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1) + scratch[0, 0]


def kernel(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, scratch_shapes=[pltpu.VMEM((1 << 20, 1024), jnp.float32)])(x)
