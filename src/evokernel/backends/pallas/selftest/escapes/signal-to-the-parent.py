# selftest: task=starter/softmax gate=screen reason=forbidden,trace_error
"""Sends a signal that does nothing to the process that started it. It is correct otherwise, so it passes only if the sandbox fails."""

import os
import signal

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def reach_out():
    for parent in (os.getppid(), 1):
        os.kill(parent, signal.SIGCONT)


reach_out()

def body(x_ref, out_ref):
    weights = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def honest(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


kernel = honest
