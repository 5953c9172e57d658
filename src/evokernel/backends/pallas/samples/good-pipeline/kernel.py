"""`emit_pipeline` inside a kernel: blocks of rows stream through VMEM, where the weights stay."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 32


def kernel(x, weight, bias, features, classes, sharpness):
    rows = x.shape[0]
    steps = pl.cdiv(rows, BLOCK)
    wide, deep = pl.cdiv(classes, 128) * 128, pl.cdiv(features, 128) * 128
    x = jnp.pad(x, ((0, steps * BLOCK - rows), (0, deep - features)))
    weight = jnp.pad(weight, ((0, wide - classes), (0, deep - features)))
    bias = jnp.pad(bias, (0, wide - classes), constant_values=-jnp.inf).reshape(1, wide)

    def body(x_ref, weight_ref, bias_ref, out_ref):
        def block(x_block, out_block):
            scores = jax.lax.dot_general(x_block[...], weight_ref[...], (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST)
            scores = sharpness * (scores + bias_ref[...])
            weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
            out_block[...] = weights / jnp.sum(weights, axis=1, keepdims=True)

        pltpu.emit_pipeline(
            block,
            grid=(steps,),
            in_specs=[pl.BlockSpec((BLOCK, deep), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((BLOCK, wide), lambda i: (i, 0))],
        )(x_ref, out_ref)

    out = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((steps * BLOCK, wide), x.dtype),
        in_specs=[
            pl.BlockSpec(memory_space=pl.ANY),
            pl.BlockSpec(memory_space=pltpu.VMEM),
            pl.BlockSpec(memory_space=pltpu.VMEM),
        ],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
    )(x, weight, bias)
    return out[:rows, :classes]
