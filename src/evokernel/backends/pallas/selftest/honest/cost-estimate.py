# selftest: task=starter/softmax
"""Sets a cost estimate, which the verifier ignores."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    free = pl.CostEstimate(flops=0, transcendentals=0, bytes_accessed=0)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), cost_estimate=free)(x)
