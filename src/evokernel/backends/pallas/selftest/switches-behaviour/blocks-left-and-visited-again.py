# selftest: task=starter/softmax gate=check,sanitize reason=race,mismatch,nan,unwritten
"""Revisits output blocks after they were written out, and expects their old content."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)

    @pl.when(pl.program_id(0) == 1)
    def _():
        out_ref[...] = out_ref[...] * 1.0


def kernel(x):
    spec = pl.BlockSpec((64, x.shape[1]), lambda t, i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(2, pl.cdiv(x.shape[0], 64)), in_specs=[spec], out_specs=spec)(x)
