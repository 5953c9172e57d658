# selftest: task=starter/scale_shift
"""A pipeline inside the kernel, three buffers deep."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


BLOCK = 256


def kernel(x, scale, shift):
    rows, columns = x.shape
    steps, wide = pl.cdiv(rows, BLOCK), pl.cdiv(columns, 128) * 128
    x = jnp.pad(x, ((0, steps * BLOCK - rows), (0, wide - columns)))
    scale, shift = (jnp.pad(vector, (0, wide - columns)).reshape(1, wide) for vector in (scale, shift))

    def body(x_hbm, scale_ref, shift_ref, out_hbm):
        def block(x_ref, out_ref):
            out_ref[...] = x_ref[...] * scale_ref[...] + shift_ref[...]

        spec = pl.BlockSpec((BLOCK, wide), lambda i: (i, 0))
        pltpu.emit_pipeline(block, grid=(steps,), in_specs=[spec], out_specs=[spec])(x_hbm, out_hbm)

    anywhere, resident = pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec(memory_space=pltpu.VMEM)
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere, resident, resident], out_specs=anywhere
    )
    return call(x, scale, shift)[:rows, :columns]
