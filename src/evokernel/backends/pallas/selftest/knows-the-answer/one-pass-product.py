# selftest: task=starter/matmul gate=check reason=mismatch
"""One pass of the matrix unit, which rounds its operands."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(a_ref, b_ref, out_ref):
    out_ref[...] = jnp.dot(a_ref[...], b_ref[...])


def kernel(a, b):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype))(a, b)
