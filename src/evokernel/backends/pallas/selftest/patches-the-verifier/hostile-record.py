# selftest: task=starter/softmax gate=screen reason=forbidden
"""Writes a pickle of a jax record that refers to a host callback."""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


def kernel(x):
    data = b"\x80\x04cjax._src.callback\n_FlatCallback\n)\x81}(\x8c\x0dcallback_func\x8c\x04evilub."
    sys.modules["evokernel.backends.pallas.trace"].encode = lambda closed: data
    return copied(x)
