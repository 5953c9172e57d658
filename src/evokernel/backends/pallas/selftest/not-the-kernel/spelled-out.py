# selftest: task=starter/softmax gate=screen reason=forbidden
"""Calls forbidden functions through names it assembles, in code it decodes."""

import base64

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


SOURCE = base64.b64encode(b"answer = getattr(jax.nn, 'soft' + 'max')(x, axis=1)")


def kernel(x):
    found = {"jax": jax, "x": x}
    exec(base64.b64decode(SOURCE), found)
    return copied(found["answer"])
