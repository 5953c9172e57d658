# selftest: task=starter/softmax gate=screen reason=killed,forbidden timeout=10
"""Raises an infrastructure error to avoid verification."""

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
    errors = sys.modules["evokernel.core.errors"]
    raise errors.InfraError("the machine is on fire")
