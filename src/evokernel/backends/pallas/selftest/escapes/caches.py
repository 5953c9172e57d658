# selftest: task=starter/softmax gate=screen reason=forbidden,trace_error
"""Creates a file in the cache folders of outcomes and the compiler, and removes it. It is correct otherwise, so it passes only if the sandbox fails."""

import pathlib

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def reach_out():
    homes = [pathlib.Path("/root"), *pathlib.Path("/").glob("home/*"), *pathlib.Path("/").glob("Users/*")]

    for home in homes:
        for part in ("outcomes", "tools", "baselines"):
            path = home / ".cache" / "evokernel" / part / "evokernel-selftest"
            try:
                path.write_text("")
                path.unlink()
                return
            except OSError:
                continue
    raise PermissionError("no cache can be written")


reach_out()

def body(x_ref, out_ref):
    weights = jnp.exp(x_ref[...] - jnp.max(x_ref[...], axis=1, keepdims=True))
    out_ref[...] = weights / jnp.sum(weights, axis=1, keepdims=True)


def honest(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


kernel = honest
