# selftest: task=starter/softmax gate=screen reason=timeout,forbidden timeout=1.5
"""A program of a million operations."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    value = x_ref[...]
    for step in range(1_000_000):
        value = value + step
    out_ref[...] = value


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
