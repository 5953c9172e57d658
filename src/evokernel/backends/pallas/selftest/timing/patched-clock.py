# selftest: task=starter/softmax gate=screen reason=forbidden
"""Stops all clocks and replaces the latency functions in the process that traces it."""

import sys
import time

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


for name in ("perf_counter", "monotonic", "process_time", "time"):
    setattr(time, name, lambda: 0.0)
for name, module in list(sys.modules.items()):
    if name.startswith("evokernel."):
        for function in ("estimate_schedule", "make_profile", "measure_on_tpu", "baseline_us", "estimate_latency"):
            if hasattr(module, function):
                setattr(module, function, lambda *_, **__: 1e-9)


def kernel(x):
    return copied(jax.nn.softmax(x, axis=1))
