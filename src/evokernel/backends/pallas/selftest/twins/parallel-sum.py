# selftest: task=starter/sum_rows gate=check,sanitize reason=race,mismatch,nan
"""Two cores add to one sum at the same time, as the grid declares."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref):
    @pl.when(pl.program_id(1) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)

    out_ref[...] += jnp.broadcast_to(jnp.sum(x_ref[...], axis=1, keepdims=True), out_ref.shape)


def kernel(x):
    wide = pl.cdiv(x.shape[1], 128) * 128
    out = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], 128), x.dtype),
        grid=(pl.cdiv(x.shape[0], 512), wide // 128),
        in_specs=[pl.BlockSpec((512, 128), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((512, 128), lambda i, j: (i, 0)),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel")),
    )(jnp.pad(x, ((0, 0), (0, wide - x.shape[1]))))
    return out[:, 0]
