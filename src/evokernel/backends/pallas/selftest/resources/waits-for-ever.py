# selftest: task=starter/softmax gate=build,check,sanitize,time reason=timeout,race,unpriced,compile_error
"""Waits for a copy that nobody starts."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref, arrived):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)
    pl.semaphore_wait(arrived, 1)


def kernel(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)
