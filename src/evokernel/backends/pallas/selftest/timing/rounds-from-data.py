# selftest: task=starter/softmax gate=time reason=unpriced
"""Works in a loop whose rounds depend on the data, which a schedule does not tell."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    rounds = (jnp.max(x_ref[:1, :]) > -1e30).astype(jnp.int32)
    start = jnp.zeros(x_ref.shape, jnp.float32)
    out_ref[...] = jax.lax.while_loop(lambda kept: kept[0] < rounds, lambda kept: (kept[0] + 1, jax.nn.softmax(x_ref[...], axis=1)), (0, start))[1]


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
