# selftest: task=starter/softmax gate=screen reason=forbidden
"""Writes a kernel whose body declares a wrong shape for a product of blocks."""

import sys

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x_ref, out_ref):
    weights = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def honest(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


def forged(closed):
    call = closed.jaxpr.eqns[0]
    body = call.params["jaxpr"]
    step = body.eqns[0]
    narrow = type(step.outvars[0])(step.outvars[0].aval.update(shape=(8, 128)))
    body = body.replace(eqns=[step.replace(outvars=[narrow])])
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=[call.replace(params={**call.params, "jaxpr": body})]))


def kernel(x):
    trace = sys.modules["evokernel.backends.pallas.trace"]
    encode = trace.encode
    trace.encode = lambda closed: encode(forged(closed))
    return honest(x)
