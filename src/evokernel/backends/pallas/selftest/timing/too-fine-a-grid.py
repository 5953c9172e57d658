# selftest: task=starter/softmax gate=screen,check reason=forbidden,timeout
"""A grid of ten million steps that do nothing."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    spec = pl.BlockSpec((128, x.shape[1]), lambda i, j: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 128), 10_000_000), in_specs=[spec], out_specs=spec)(x)
