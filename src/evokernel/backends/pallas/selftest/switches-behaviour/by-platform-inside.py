# selftest: task=starter/softmax gate=screen reason=forbidden
"""One program for the CPU and another for the TPU, inside the kernel."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jax.lax.platform_dependent(x_ref[...], cpu=lambda x: jax.nn.softmax(x, axis=1), default=lambda x: x)


def kernel(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)
