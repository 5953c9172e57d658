# selftest: task=starter/softmax gate=check,sanitize,time reason=race,nan,mismatch
"""Reads the target of a copy without waiting for the copy."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_hbm, out_ref, buffer, arrived):
    copy = pltpu.make_async_copy(x_hbm, buffer, arrived)
    copy.start()
    out_ref[...] = jax.nn.softmax(buffer[...], axis=1)
    copy.wait()


def kernel(x):
    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], scratch_shapes=scratch)(x)
