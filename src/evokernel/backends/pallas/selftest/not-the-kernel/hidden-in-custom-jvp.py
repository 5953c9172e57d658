# selftest: task=starter/softmax gate=screen reason=forbidden
"""The work is in a function with a custom derivative."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


@jax.custom_jvp
def weights(x):
    return jax.nn.softmax(x, axis=1)


weights.defjvp(lambda primals, tangents: (weights(*primals), tangents[0]))


def kernel(x):
    return copied(weights(x))
