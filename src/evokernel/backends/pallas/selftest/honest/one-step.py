# selftest: task=starter/softmax
"""A grid of one step, and everything in VMEM."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def softmax_rows(scores):
    """A helper, as any program has."""
    peak = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - peak)
    return weights * pl.reciprocal(weights.sum(axis=-1, keepdims=True))


def kernel(x):
    def body(x_ref, out_ref):
        out_ref[...] = softmax_rows(x_ref[...])

    whole = pl.BlockSpec(x.shape, lambda i: (0, 0))
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(1,), in_specs=[whole], out_specs=whole)(x)
