# selftest: task=starter/softmax gate=check,sanitize reason=out_of_bounds,mismatch,nan,race,unwritten
"""An index map that leaves the array."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    spec = pl.BlockSpec((128, x.shape[1]), lambda i: (i, 0))
    ahead = pl.BlockSpec((128, x.shape[1]), lambda i: (i + 1, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 128),), in_specs=[spec], out_specs=ahead)(x)
