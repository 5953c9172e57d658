# selftest: task=starter/softmax gate=screen reason=forbidden,trace_error
"""Replaces parts of jax, pickle and numpy, so that the written program differs from the traced one."""

import pickle

import numpy as np

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
    make = jax.make_jaxpr
    jax.make_jaxpr = lambda *_, **__: lambda *arrays: make(lambda *given: jax.nn.softmax(given[0], axis=1))(*arrays)
    np.asarray = np.array = lambda *_, **__: np.zeros(1)
    pickle.dumps = lambda *_, **__: b""
    for primitive in (jax.lax.exp_p, jax.lax.div_p):
        primitive.name = "reshape"
    return copied(jax.nn.softmax(x, axis=1))
