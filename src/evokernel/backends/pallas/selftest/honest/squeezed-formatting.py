# selftest: task=starter/gelu
"""All on few lines, with semicolons, lambdas and walrus operators."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def kernel(x):
  r, c = x.shape; b = pl.BlockSpec((128, c), lambda i: (i, 0)); t = lambda v: jnp.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))
  return pl.pallas_call(lambda i, o: o.__setitem__((...,), (v := i[...]) * 0.5 * (1. + t(v))), out_shape=jax.ShapeDtypeStruct((r, c), x.dtype), grid=(-(-r // 128),), in_specs=[b], out_specs=b)(x)
