"""Does not write every second block."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 32


def body(x_ref, weight_ref, bias_ref, out_ref, *, sharpness):
    scores = jax.lax.dot_general(x_ref[...], weight_ref[...], (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST)
    scores = sharpness * (scores + bias_ref[...])
    weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
    @pl.when(pl.program_id(0) % 2 == 0)
    def _():
        out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def kernel(x, weight, bias, features, classes, sharpness):
    rows = x.shape[0]
    wide = pl.cdiv(classes, 128) * 128
    weight = jnp.pad(weight, ((0, wide - classes), (0, 0)))
    bias = jnp.pad(bias, (0, wide - classes), constant_values=-jnp.inf).reshape(1, wide)
    out = pl.pallas_call(
        functools.partial(body, sharpness=sharpness),
        out_shape=jax.ShapeDtypeStruct((rows, wide), x.dtype),
        grid=(pl.cdiv(rows, BLOCK),),
        in_specs=[
            pl.BlockSpec((BLOCK, features), lambda i: (i, 0)),
            pl.BlockSpec((wide, features), lambda i: (0, 0)),
            pl.BlockSpec((1, wide), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((BLOCK, wide), lambda i: (i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
    )(x, weight, bias)
    return out[:, :classes]
