# selftest: task=starter/softmax gate=screen reason=forbidden
"""Writes a pickle that runs a command when it is loaded."""

import pickle
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


class Payload:
    def __reduce__(self):
        return exec, ("import os; os._exit(0)",)


def kernel(x):
    sys.modules["evokernel.backends.pallas.trace"].encode = lambda closed: pickle.dumps(Payload())
    return copied(x)
