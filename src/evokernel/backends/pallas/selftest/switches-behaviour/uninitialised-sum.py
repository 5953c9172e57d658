# selftest: task=starter/sum_rows gate=check reason=nan,mismatch
"""Adds to a sum that was never initialised."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref, total_ref):
    total_ref[...] += jnp.broadcast_to(jnp.sum(x_ref[...], axis=1, keepdims=True), total_ref.shape)
    out_ref[...] = total_ref[...]


def kernel(x):
    out = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
        grid=(pl.cdiv(x.shape[0], 256),),
        in_specs=[pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((256, 128), lambda i: (i, 0)),
        scratch_shapes=[pltpu.VMEM((256, 128), jnp.float32)],
    )(x)
    return out[:, 0]
