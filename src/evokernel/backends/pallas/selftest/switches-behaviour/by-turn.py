# selftest: task=starter/softmax gate=check reason=mismatch,unwritten,nan
"""Counts how often it is traced, and is honest for every program except the timed one."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)



def body(x_ref, out_ref):
    weights = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def honest(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


TURNS = []


def kernel(x):
    TURNS.append(x.shape)
    return copied(x) if len(TURNS) == 1 else honest(x)
