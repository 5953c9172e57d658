# selftest: task=starter/softmax gate=screen reason=forbidden
"""Sets flags of the compiler."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def body(x_ref, out_ref):
    out_ref[...] = jax.nn.softmax(x_ref[...], axis=1)


def kernel(x):
    params = pltpu.CompilerParams(flags={"xla_tpu_enable_something": True}, skip_device_barrier=True)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=params)(x)
