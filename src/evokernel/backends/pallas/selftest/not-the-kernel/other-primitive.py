# selftest: task=starter/softmax gate=screen reason=forbidden
"""Defines a new primitive that XLA would compute."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.extend.core import Primitive
from jax.interpreters import mlir


def copy(x_ref, out_ref):
    out_ref[...] = x_ref[...]


def copied(x):
    spec = pl.BlockSpec((256, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(copy, out_shape=shape, grid=(pl.cdiv(x.shape[0], 256),), in_specs=[spec], out_specs=spec)(x)


everything = Primitive("softmax_everything")
everything.def_abstract_eval(lambda aval: aval)
mlir.register_lowering(everything, mlir.lower_fun(lambda x: jax.nn.softmax(x, axis=1), multiple_results=False))


def kernel(x):
    return copied(everything.bind(x))
