# selftest: task=starter/softmax gate=screen reason=forbidden
"""Ships the answers, and reads the input without using it."""

import numpy as np

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, answer_ref, out_ref):
    out_ref[...] = answer_ref[...] + 0.0 * x_ref[...]


def kernel(x):
    answer = np.random.default_rng(0).dirichlet(np.ones(x.shape[1]), x.shape[0]).astype(np.float32)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, jnp.asarray(answer))
