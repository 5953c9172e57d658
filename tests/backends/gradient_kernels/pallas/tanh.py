"""The derivative of tanh(x) is 4 e / (1 + e)^2 with e = exp(-2 |x|), which loses no digits where tanh is close to one."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 128


def body(x_ref, grad_ref, out_ref):
    e = jnp.exp(-2.0 * jnp.abs(x_ref[...]))
    out_ref[...] = grad_ref[...] * 4.0 * e / ((1.0 + e) * (1.0 + e))


def kernel(x, grad_out):
    rows, cols = x.shape[0] * x.shape[1], x.shape[2]
    spec = pl.BlockSpec((BLOCK, cols), lambda i: (i, 0))
    grad_x = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((rows, cols), x.dtype),
        grid=(pl.cdiv(rows, BLOCK),),
        in_specs=[spec, spec],
        out_specs=spec,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x.reshape(rows, cols), grad_out.reshape(rows, cols))
    return grad_x.reshape(x.shape)
