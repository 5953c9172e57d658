# selftest: task=starter/rmsnorm gate=check reason=mismatch
"""Computes the norm of a row from its first columns."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x, weight, dim, eps):
    def body(x_ref, weight_ref, out_ref):
        some = x_ref[:, : max(1, dim - dim // 4)]
        norm = jax.lax.rsqrt(jnp.mean(jnp.square(some), axis=1, keepdims=True) + eps)
        out_ref[...] = x_ref[...] * norm * weight_ref[...]

    block, row = pl.BlockSpec((256, dim), lambda i: (i, 0)), pl.BlockSpec((1, dim), lambda i: (0, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[block, row], out_specs=block)
    return call(x, weight.reshape(1, dim))
