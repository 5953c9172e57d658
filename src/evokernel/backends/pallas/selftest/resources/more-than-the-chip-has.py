# selftest: task=starter/softmax gate=screen,build,check reason=memory,compile_error,vmem,forbidden,unsupported,crash
"""An array of a terabyte outside the kernel."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


def kernel(x):
    wide = jnp.broadcast_to(x[:, :1, None, None], (x.shape[0], 1024, 1024, 512)).reshape(-1, 1024)
    return copied(wide)[: x.shape[0], :1] * jnp.ones((1, x.shape[1]), x.dtype)
