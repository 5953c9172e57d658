# selftest: task=starter/softmax
"""Looks up names of other jax versions, uses a table of functions by name, and is jitted."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


try:
    from jax.experimental.pallas import tpu as pltpu
except ImportError:
    pltpu = None

Parameters = getattr(pltpu, "CompilerParams", None) or getattr(pltpu, "TPUCompilerParams")
STEPS = {"peak": jnp.max, "total": jnp.sum}
__all__ = ["kernel"]


@jax.jit
@jax.named_call
def kernel(x, *, block=128):
    assert x.ndim == 2, "rows of numbers"

    def body(x_ref, out_ref):
        shifted = jnp.exp(x_ref[...] - STEPS["peak"](x_ref[...], axis=1, keepdims=True))
        out_ref[...] = shifted / STEPS["total"](shifted, axis=1, keepdims=True)

    spec = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        body,
        out_shape=jax.eval_shape(lambda y: y, x),
        grid=(pl.cdiv(x.shape[0], block),),
        in_specs=[spec],
        out_specs=spec,
        compiler_params=Parameters(dimension_semantics=("parallel",), vmem_limit_bytes=32 * 1024 * 1024),
    )(x)


if __name__ == "__main__":
    import sys

    sys.exit(str(jax.eval_shape(kernel, jax.ShapeDtypeStruct((8, 128), jnp.float32))))
